"""A session in which a person judges pairs, on a page or in a terminal.

What judgements say of other pairs is computed elsewhere (noisyir/detection): nothing here estimates anything.
"""
