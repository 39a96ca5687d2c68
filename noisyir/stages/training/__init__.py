"""Stages of training: models before training, and each way to train them."""
