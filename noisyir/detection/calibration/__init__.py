"""What judgements teach about the scores: a sample, its logistic model and the next questions; no page, no files."""
