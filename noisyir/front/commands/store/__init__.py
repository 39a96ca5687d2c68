"""Check the store's files, and delete what nothing needs.

example: noisyir store verify && noisyir store gc --dry-run
"""
