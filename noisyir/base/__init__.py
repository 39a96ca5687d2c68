"""Ground of every room: errors, settings, variants, artifacts' contracts, parts of pages; no subject of its own."""
