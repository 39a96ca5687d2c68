"""Measure noisyir alone: denoisers under made-up noise, or speed beside peers.

example: noisyir bench noise --suite pydocs --seeds 3
"""
