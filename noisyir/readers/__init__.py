"""Readers on distant labels: all of contrastive distant supervision.  Nothing outside of this folder imports it.

The rest finds it by entry points, as it would a stranger's package: tasks, stages, exports and kinds of registered
models (pyproject.toml).
"""
