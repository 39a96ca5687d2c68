"""Stages of retrieval: BM25, vectors, indexes, search and re-ranking."""
