"""The pipeline's engine: stages, plans, keys, the store and, in `remote`, many machines; no model and no label."""
