"""A trained model behind calls that clients speak already; nothing is trained here, and no stage runs."""
