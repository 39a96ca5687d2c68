"""Ground of every room: errors, settings, variants, contracts of artifacts, parts of pages; no subject of its own."""
