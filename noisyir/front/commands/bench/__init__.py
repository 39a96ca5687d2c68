"""Measure noisyir alone: denoisers under made-up noise.  Its speed against peers is measured in a checkout only.

example: noisyir bench noise --suite pydocs --seeds 3
"""
