"""Stages of reading: distant labels, readers, and their answers."""
