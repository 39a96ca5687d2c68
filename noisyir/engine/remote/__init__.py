"""The store past one machine: leases, copies, shards and many processes; nothing that one machine alone needs."""
