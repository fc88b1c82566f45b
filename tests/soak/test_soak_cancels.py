"""Ten thousand steps over processes that are cancelled at random leave nothing."""

import os

import pytest

from tests.support.cluster_cancelling import cancel_at_random
from tests.support.cluster_processes import FIRST, THREE, Processes, addresses

pytestmark = [pytest.mark.sockets, pytest.mark.slow, pytest.mark.timeout(1800)]
CANCELS = int(os.environ.get("CANCELS", "10000"))


async def test_ten_thousand_cancels_leave_nothing(capsys):
    with Processes(addresses(THREE), without=[FIRST]) as processes:
        ended = await cancel_at_random(processes, CANCELS, seed=2)
    with capsys.disabled():
        print(f"\n{CANCELS} steps were cut short, and {ended} ended by themselves: nothing is left")
    assert ended
