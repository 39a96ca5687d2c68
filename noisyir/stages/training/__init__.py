"""Stages of training: models before training, and each way to train them; no loop, which is in training/."""
