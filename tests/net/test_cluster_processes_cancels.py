"""Steps over processes that are cancelled at random leave nothing; the soak has more of them."""

import pytest

from tests.support.cluster_cancelling import cancel_at_random
from tests.support.cluster_processes import FIRST, THREE, Processes, addresses
from tests.support.scale import amount

pytestmark = [pytest.mark.sockets, pytest.mark.slow]


@pytest.fixture(scope="module")
def processes():
    with Processes(addresses(THREE), without=[FIRST]) as cluster:
        yield cluster


async def test_hundreds_of_cancels_leave_nothing(processes):
    await cancel_at_random(processes, amount(10, 300), seed=1)
