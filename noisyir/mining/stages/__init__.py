"""Stages that find, judge and draw negatives, without training."""
