"""The dry run: a plan's steps with the costs that their stages declare, each time measured or assumed; nothing runs."""
