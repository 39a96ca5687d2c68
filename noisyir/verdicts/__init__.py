"""Which pairs are wrong, in words: the audit's page and files, judgements by hand, one pair's account; no maths."""
