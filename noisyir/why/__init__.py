"""What every stage of a run decided about one query or one pair, for people."""
