"""The campaign against noisyir's promises: `make chaos`; what is promised and what was found: docs/reliability.md."""
