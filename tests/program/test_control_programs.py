"""Programs with branches, loops, state, queues and lists are the same in Python, node by node, and in regions.

The blocks of a region are short, or many pieces.
"""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aioflow as af
from aioflow.program import pieces
from aioflow.testing import VirtualTimeLoop
from tests.support.programs import Block, Outcome, blocks, built, computed, interpreted
from tests.support.scale import amount

CONFIGS = {
    "tokens": af.Config(executor="tokens", optimize=False),
    "tokens, optimised": af.Config(executor="tokens"),
    "regions": af.Config(optimize=False),
    "regions, optimised": af.Config(),
}


LONGEST = st.sampled_from([pieces.LONGEST, 2.0, 6.0])


def check(program: Block, order: int, longest: float) -> None:
    """Return if the program comes to the same everywhere, if blocks have pieces of that length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "LONGEST", longest)
        compare(program, order)


def compare(program: Block, order: int) -> None:
    wanted = interpreted(program, order)
    graph = built(program, order)
    for name, config in CONFIGS.items():
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            found = runner.run(computed(graph, config))
        for what in ("results", "states", "derivatives"):
            for value, expected in zip(getattr(found, what), getattr(wanted, what), strict=True):
                text = f"{name}: {what} of {program}"
                np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-7 * _largest(wanted), err_msg=text)


def _largest(outcome: Outcome) -> float:
    return max(1.0, *[np.max(np.abs(value)) for part in vars(outcome).values() for value in part])


@settings(max_examples=amount(5, 60))
@given(blocks(takes=True), LONGEST)
def test_values_and_state_agree(program: Block, longest: float) -> None:
    check(program, 0, longest)


@settings(max_examples=amount(3, 40))
@given(blocks(depth=2, takes=True), LONGEST)
def test_gradients_to_second_order_agree(program: Block, longest: float) -> None:
    check(program, 2, longest)
