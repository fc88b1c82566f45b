"""The oracle: aioflow's ops beside TensorFlow's, through its v1 API, on generated inputs.

`ops/` is a table: a line per op says how to call it, on what inputs, and where the two differ on purpose. Needs an
environment with TensorFlow, which `make oracle` sets up.
"""
