"""Linear operators: matrices with structure, or batches of them, and computations that make use of the structure.

Input: tensors that describe a matrix, such as its diagonal, or operators to combine. Output: objects whose methods make
products, solutions, determinants and the like. `operator` holds what all share: shapes, hints, names of operations, and
how each method follows from a dense matrix; each other file holds a kind of operator. `dispatch` finds what two
operators make together, by the rules in `algebra`, which imports all kinds: so a program that uses one kind has all.
This folder uses `kernels` and the functions of `library` around it.
"""

from aioflow.library.linear_operators import algebra as algebra
