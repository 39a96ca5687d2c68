"""Detection of wrong pairs: from scores to probabilities, verdicts and the noise rate; never from the truth."""
