"""Ten thousand cancellations over each kind of waiting operation, on one device, on four, and in a cluster.

STORM_CUTS and STORM_SEEDS set the number of cancellations and the seeds. `tests/test_storms.py` runs a sample.
"""

import os

import pytest

from tests.test_storms import OTHERS, PLACES, QUEUES, STORMS, rage

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
CUTS = int(os.environ.get("STORM_CUTS", "10000"))
SEEDS = [int(seed) for seed in os.environ.get("STORM_SEEDS", "11 12 13 14 15").split()]


def of_kind(kind):
    return [name for name in STORMS if name.startswith(kind + " ")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("kind", [*QUEUES, *OTHERS])
async def test_storms_lose_and_double_nothing(kind, where, seed, capsys):
    """The cancellations are divided among the forms of runs, and among one consumer and several."""
    names = of_kind(kind)
    cut = 0
    for place, name in enumerate(names):
        for consumers in (1, 3):
            account = await rage(where, name, consumers, seed * 1000 + place, -(-CUTS // (2 * len(names))))
            cut += account.cut
    with capsys.disabled():
        print(f"\n{kind} on {where}, seed {seed}: {cut} cut short, nothing lost or doubled")
    assert cut >= CUTS


@pytest.mark.sockets
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("where", ["one device", "four devices"])
@pytest.mark.parametrize("kind", [*QUEUES, *OTHERS])
async def test_storms_on_real_loops_lose_and_double_nothing(kind, where, seed):
    names = of_kind(kind)
    for place, name in enumerate(names):
        await rage(where, name, 3, seed * 1000 + place, -(-CUTS // len(names)))
