"""What a call of a stage takes: arithmetic that declarations name in `cost`; no plan, store or stage is known here."""
