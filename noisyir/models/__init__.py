"""Models: tokens, towers, encoders and readers, and their folders on disk; no loss and no training loop."""
