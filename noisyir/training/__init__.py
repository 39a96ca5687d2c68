"""Training loops and what they need."""
