"""Several CPU devices in one session: what an edge between two of them costs, and what two branches gain by them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.harness import Step, alternate
from benchmarks.report import Claim, Row, timed_row

FIRST, SECOND = "/cpu:0", "/cpu:1"
APART = "aioflow, two devices"
TENSORFLOW_APART = "TensorFlow, two"
SIZE, LENGTH = 640, 3
"""A branch is so many products of square matrices of that size, about 50 ms on one core."""
MATRICES = np.random.default_rng(1).standard_normal((2, SIZE, SIZE)) / np.sqrt(SIZE)


async def rows() -> AsyncIterator[Row]:
    """An edge, and two branches."""
    edge = await alternate(
        {
            peers.AIOFLOW: aioflow_edge(FIRST),
            APART: aioflow_edge(SECOND),
            peers.TENSORFLOW: tensorflow_edge(FIRST),
            TENSORFLOW_APART: tensorflow_edge(SECOND),
        },
        agree=1e-6,
    )
    more = Claim("two devices - one", edge.difference(APART, peers.AIOFLOW), 40e-6 * 1e6, unit=" us")
    yield timed_row("callable with one scalar fed, and one edge between two devices", edge, [more])
    branches = await alternate(
        {
            peers.AIOFLOW: aioflow_branches(FIRST),
            APART: aioflow_branches(SECOND),
            peers.TENSORFLOW: tensorflow_branches(FIRST),
            TENSORFLOW_APART: tensorflow_branches(SECOND),
        },
        rounds=9,
        agree=1e-6,
    )
    yield timed_row("two branches", branches, [])
