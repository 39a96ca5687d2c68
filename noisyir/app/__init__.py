"""What a user asks for, put together: runs, audits, refreshes, look-ups, and what the terminal prints."""
