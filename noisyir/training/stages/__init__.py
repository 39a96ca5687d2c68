"""Stages that train with the plain loss alone, and their inputs; methods' stages are in `noisyir.methods`."""
