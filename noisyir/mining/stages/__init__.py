"""Stages that find, judge and draw negatives; no final model."""
