"""Stages of retrieval: BM25, vectors, indexes, search and re-ranking; no engine, which is in retrieval/."""
