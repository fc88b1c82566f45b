"""Ops on sparse tensors, held as positions, values and a shape, and on sets."""
