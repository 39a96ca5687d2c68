"""Python API, such as `noisyir.audit`; judging and training happen in the layers it calls."""
