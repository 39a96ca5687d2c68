"""A session in which a person judges pairs, on a page.

What judgements say of other pairs is computed elsewhere (noisyir/detection): nothing here estimates anything.
"""
