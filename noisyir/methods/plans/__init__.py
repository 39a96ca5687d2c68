"""Experiments, suites and the plans that they lay out; no arithmetic."""
