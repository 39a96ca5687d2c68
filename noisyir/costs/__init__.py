"""What a plan would cost before it runs: rows, bytes and hours of each step, each hour measured or assumed."""
