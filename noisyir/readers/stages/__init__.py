"""Reader stages: distant labels, training, answers and page sections; no loops and no equations."""
