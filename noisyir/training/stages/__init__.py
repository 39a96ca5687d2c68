"""Stages that train with the plain loss, and their inputs; methods' stages are in `noisyir.methods`."""
