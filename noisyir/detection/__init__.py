"""Detection of wrong pairs: scores, null pairs, the noise rate and flags; the truth is never read here."""
