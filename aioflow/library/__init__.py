"""Functions that users compose graphs with: variables, branches, loops, `af.nn`, images, queues, collectives.

Input: tensors and Python values. Output: tensors, and handles such as `Variable` and `FIFOQueue`. Every function
builds operations of `kernels`, with their gradients. This folder never computes a value, and it knows no plan, device
or session.
"""
