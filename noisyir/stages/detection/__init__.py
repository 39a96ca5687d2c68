"""Stages of noise: pairs scored, judged, repaired and audited; no detector, which is in detection/."""
