"""Choosing hard negatives: pure functions on arrays; no search, no encoding, no store."""
