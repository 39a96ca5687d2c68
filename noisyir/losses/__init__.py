"""Losses: pure functions of scores."""
