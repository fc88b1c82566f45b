"""Channels that carry frames between tasks, by websockets or in memory; credentials; monitors of processes."""
