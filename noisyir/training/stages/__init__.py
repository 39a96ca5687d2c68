"""Stages that train with the plain loss, and what they read; methods' stages are not here but in `noisyir.methods`."""
