"""Stages of results: measures, comparisons and pages; nothing trains here."""
