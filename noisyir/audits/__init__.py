"""An audit of pairs: tables, page, judging by people and by models, the cleaned file; no score is made here."""
