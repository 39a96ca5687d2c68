"""Measure noisyir alone: denoisers under made-up noise.  Its speed beside peers is measured in a checkout alone.

example: noisyir bench noise --suite pydocs --seeds 3
"""
