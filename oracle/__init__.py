"""The oracle: aioflow's ops beside TensorFlow's, through its v1 API, on generated inputs.

`ops/` is a table: a line per op says how to call it, on what inputs, and where the two differ on purpose. Needs an
environment with TensorFlow, which `make oracle` sets up.
"""

import os

# Before TensorFlow is imported, which else rounds otherwise on some processors.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
