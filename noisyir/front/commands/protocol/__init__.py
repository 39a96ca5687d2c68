"""Let tools that are no part of noisyir join the noise bench: write its tasks, and score their results.

example: noisyir protocol write tasks --suite small && noisyir protocol score my_tool
"""
