"""Training loops with their batches, optimisers, checkpoints and processes; no stage, no choice of data."""
