"""The definition of a graph: operations, tensors, scopes, and the graph as plain data.

Input: the calls of a user's program, or a GraphDef. Output: a `Graph` of operations, each with the shape rule of its
op applied and with the user's line that built it. This folder may use `tensors`. It never runs an operation, and it
knows no session, device or event loop.
"""
