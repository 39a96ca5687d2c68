"""Stages that add noise and keep the truth about it; only scoring reads that truth."""
