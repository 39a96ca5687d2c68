"""Stages of results: measures, comparisons and pages."""
