"""Readers on distant labels, after contrastive distant supervision; attached by entry points, so nothing imports it."""
