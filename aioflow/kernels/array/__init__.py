"""Ops that make, reshape, slice, join, gather, scatter and sort tensors."""
