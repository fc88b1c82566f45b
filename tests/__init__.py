"""The tests of aioflow. This module is imported first, before the libraries that start threads."""

import os

# Tests run beside each other, one a core: the threads of a product would wait for each other. Processes inherit it.
if os.environ.get("AIOFLOW_LONG", "0") == "0":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
