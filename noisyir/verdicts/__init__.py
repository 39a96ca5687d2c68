"""Which pairs are wrong, in words: the audit's page and files, judgements by hand, and the account of one pair."""
