"""Stages of mining: candidates for hard negatives, who judges them, and what is drawn; samplers are not here."""
