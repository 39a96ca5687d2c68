"""The speed table: what noisyir takes beside its peers, or beside itself as it was, in turns of one run.

    python -m bench.speed                                      # every row, and benchmarks/speed.json
    python -m bench.speed --rows mining --data ../shared/data/squad

A row is one file in `rows/`; `row.py` says what one is, `turns.py` how its sides are timed and compared, `texts.py`
what they read, `table.py` how the record is written.  Sides import what they need themselves, so that a peer's process
does not load noisyir.
"""
