"""Readers of the field's formats, the built-in data set, and wrong labels put in on purpose; nothing knows a model."""
