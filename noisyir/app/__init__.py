"""What a user asks for, put together: runs, audits, refreshes, look-ups and printing; no parsing of arguments."""
