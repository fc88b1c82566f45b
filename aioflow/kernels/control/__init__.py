"""Ops that direct a step: branches, loops, lists of tensors, transfers, Python functions, assertions."""
