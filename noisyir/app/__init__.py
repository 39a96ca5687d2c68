"""Use cases that command line and Python share: run, audit, import, export, look up, print; no parsing of arguments."""
