"""From the graph a user built to the flow a plan runs: an ordered tuple of pure functions, Flow to Flow."""
