"""Search: BM25, vectors in FAISS, fusion, reranking, their stages and measures; no model is trained here."""
