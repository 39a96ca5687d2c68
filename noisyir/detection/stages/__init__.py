"""Stages that score pairs and decide which are suspect; no truth about noise is read here."""
