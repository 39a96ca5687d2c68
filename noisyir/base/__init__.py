"""The ground of all rooms: errors, settings, variants, artifacts' contracts, parts of pages; no subject of its own."""
