"""One short function per pipeline: what feeds what, in the order of the paper's algorithm box."""
