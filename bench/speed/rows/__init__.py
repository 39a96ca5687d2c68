"""The rows of the speed table, one file each; a new file is a new row."""
