"""The front door in Python: `noisyir.audit` and its like; nothing here judges or trains, it calls what does."""
