"""Bi-encoders: tokens, towers, folders."""
