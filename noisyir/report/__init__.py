"""The page that shows a run's result: tables in, HTML out, and nothing measured here."""
