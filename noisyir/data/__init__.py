"""A user's files: formats, columns, splits, checks and the stages that bring them in; no model."""
