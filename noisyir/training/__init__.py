"""Training loops and what they need: batches, optimisers, checkpoints, processes; no stage, no choice of data."""
