"""Learning from judgements: a sample, a logistic model and the next questions, without pages or files."""
