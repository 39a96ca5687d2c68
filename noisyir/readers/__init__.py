"""Readers trained with contrastive distant supervision; attached by entry points, so nothing imports this package."""
