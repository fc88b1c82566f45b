"""The worker service: runs the share of a task in each step, and serves values and queues to other tasks."""
