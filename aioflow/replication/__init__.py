"""Replicas that train together: which gradients make a step, how stale they may be; and those who wait for that."""
