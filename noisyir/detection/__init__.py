"""Which pairs are wrong: from scores of pairs to probabilities, verdicts and the noise rate; never from the truth."""
