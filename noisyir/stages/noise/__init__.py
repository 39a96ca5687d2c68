"""Stages of noise: pairs scored, judged, repaired and audited."""
