"""The Python API, such as `noisyir.audit`; no judging and no training, which other rooms do."""
