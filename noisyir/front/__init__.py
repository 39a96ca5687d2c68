"""User interfaces: command line (`cli`, `commands`) and Python API (`api`); no logic that other packages need."""
