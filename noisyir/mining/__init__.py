"""Choosing hard negatives: pure functions on arrays."""
