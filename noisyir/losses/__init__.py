"""Losses: pure functions of scores; no model, no optimiser, no data."""
