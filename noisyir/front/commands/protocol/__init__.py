"""The noise bench's protocol for methods that are no part of noisyir: tasks for them, and scores; no training.

example: noisyir protocol write tasks --suite small && noisyir protocol score my_tool
"""
