"""Which pairs are wrong: scores, null pairs, the noise rate and the flags; the truth is never read here."""
