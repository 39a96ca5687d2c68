"""Ways to train against wrong labels, one file or folder each; experiments and their plans; no shared arithmetic."""
