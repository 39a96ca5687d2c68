"""Stages that train by the plain loss, and what they read; the methods' stages are in `noisyir.methods`, not here."""
