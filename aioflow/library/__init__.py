"""Functions and handles composed from ops: variables, control flow, queues, neural networks, losses, metrics, images.

Input: the calls of a user's program. Output: operations in the default graph, with gradients, and handles to resources.
A failed call leaves the graph as it was. This folder uses `kernels`, `graph` and `autodiff`. It never runs a step, and
it never imports a session, an executor or the network.
"""
