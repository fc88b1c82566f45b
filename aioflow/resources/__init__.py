"""State that outlives a step: containers of variables and queues, readers, and journals of repeated runs.

Input: names, and the values that kernels store. Output: the same object for the same container and name in every
step. This folder may use `waiting` and `files`. It never runs a step.
"""
