"""Stages that score pairs and decide which are suspect; the truth about noise is never read here."""
