"""Ops on matrices and batches of matrices: products, factors, solutions and eigenvalues."""
