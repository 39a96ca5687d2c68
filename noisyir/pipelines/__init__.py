"""Plans: an experiment's settings, its methods, and the steps that they make; no arithmetic."""
