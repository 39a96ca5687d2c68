"""Stages of retrieval: index, encode, search, fuse and rerank; no training and no measure."""
