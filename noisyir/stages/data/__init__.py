"""Stages of data: raw data as tables, and noise put in on purpose; no format, which is in data/."""
