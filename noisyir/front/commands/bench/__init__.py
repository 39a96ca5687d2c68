"""Compare methods under added noise.  Speed is measured in a checkout only, by `make bench`.

example: noisyir bench noise --suite pydocs --seeds 3
"""
