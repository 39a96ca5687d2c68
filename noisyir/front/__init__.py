"""The front doors: the command line and the Python API; no logic that another room could need."""
