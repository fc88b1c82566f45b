"""The master service: the sessions of clients, their plans over all tasks, and their steps."""
