"""Stages that make the first model and ranker; no training."""
