"""Reading: where passages hold answers, and how likely each such place is the right one; no training loop."""
