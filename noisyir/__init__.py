"""Train dense retrievers on data whose labels are wrong, and say which labels are wrong."""

__version__ = "0.2.0"
