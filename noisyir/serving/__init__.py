"""A trained model behind the protocols that clients speak; nothing is trained here, and no stage runs."""
