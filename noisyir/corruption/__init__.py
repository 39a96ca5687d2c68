"""Wrong labels and hidden positives that a bench adds on purpose; never to a user's pairs unless the user says so."""
