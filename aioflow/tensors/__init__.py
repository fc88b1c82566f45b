"""Values and their types: dtypes, shapes, nested structures, and the conversion of Python values to arrays.

Input: values as users, kernels and the network pass them. Output: NumPy arrays, lists of tensors, and specs, which
describe a value by dtype and shape before it is computed. This folder may use NumPy and plain Python. It never
imports a graph, an operation, a device or asyncio.
"""
