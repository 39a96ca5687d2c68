"""Hard negatives: candidates, samplers, filters, judges, the passage sieve and teachers; no final model."""
