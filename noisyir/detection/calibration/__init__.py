"""Learning from judgements: a sample, a logistic model and the next questions; no pages and no files."""
