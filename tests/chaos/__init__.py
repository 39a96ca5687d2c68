"""The campaign against noisyir's promises: `make chaos`; the promises are in docs/operate/reliability.md."""
