"""Finding documents: BM25 by Lucene or in numpy, and dense vectors in FAISS; no model is trained here."""
