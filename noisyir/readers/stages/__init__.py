"""Stages of readers: distant labels, training, answers, sections of pages; no loop and no equation."""
