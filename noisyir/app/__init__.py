"""Use cases: runs, audits, refreshes, look-ups and printing; no parsing of arguments."""
