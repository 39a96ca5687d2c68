"""The training loop, its batches, optimisers and the papers' losses (`losses`), one file a paper; no detection."""
