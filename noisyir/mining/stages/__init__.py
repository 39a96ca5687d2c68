"""Stages that find, judge and draw negatives; no training."""
