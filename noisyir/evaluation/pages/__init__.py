"""The report, the bench page and their parts; no number is computed here that a table does not hold."""
