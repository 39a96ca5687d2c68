"""The papers' losses, one file a paper: pure functions of scores; no model, no optimiser, no data."""
