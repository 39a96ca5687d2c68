"""Measures per query, answer matching, comparison of systems, and TREC files; values alone, and no page."""
