"""The engine of any pipeline: stages, plans, the store, and the machine; it knows no model and no label."""
