"""What a data owner does with an audit: judge pairs by hand, and get a cleaned file of pairs."""
