"""Ops on resources: variables, queues, barriers, staging areas, readers, checkpoints and replicas."""
