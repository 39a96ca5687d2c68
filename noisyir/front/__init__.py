"""The front doors: command line (`cli`, `commands`) and Python API (`api`); no logic that another room could need."""
