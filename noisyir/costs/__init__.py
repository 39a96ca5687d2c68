"""What a plan would cost before it runs: rows, bytes and hours of each step, measured or assumed; it runs nothing."""
