"""Parts that every page shares: cells of tables, charts and the common style; no page of its own."""
