"""Measures, significance, comparison, and the report's and the bench's pages; the only room that reads the truth."""
