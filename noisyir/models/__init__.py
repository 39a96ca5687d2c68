"""Encoders, rankers, tokens and their folders on disk; no loss and no training loop."""
