"""What feeds what: an experiment's settings, its methods, and the plan that they make; no arithmetic."""
