"""The passage sieve: which candidates are too near to a query to be its negatives."""
