"""Ops by element: arithmetic, comparisons, special functions; reductions, segments and random numbers."""
