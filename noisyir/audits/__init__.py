"""Wrong pairs in words: the audit's page and files, judgements by hand, and the account of one pair.

What a verdict rests on is computed in `noise` and `mining`; here it is only read, put into sentences and written.
"""
