"""From graph to plan: the part of a graph that a call needs, rewritten, placed, and cut into one flow per device.

Input: a graph, the feeds and fetches of a call, the devices and their costs. Output: a frozen plan. `pipeline` is the
path on one page: `passes` rewrite the flow, `placement` chooses devices, `partition` inserts Send and Recv, and
`memory_search` orders the nodes. All functions are synchronous. This folder never touches device memory or the
event loop; only `passes.optimise` runs kernels, on constants.
"""
