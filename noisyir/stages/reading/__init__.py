"""Stages of reading: distant labels, readers, and their answers; no method, which is in pipelines/."""
