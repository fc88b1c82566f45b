"""A client that is stopped, and so silent, leaves nothing on any task either."""

import signal

import pytest

from tests.net.test_cluster_processes_orphans import check_nothing_is_left_of_a_client
from tests.support.cluster_processes import on_one_loop

pytest_plugins = ["tests.support.three_processes"]
pytestmark = [pytest.mark.sockets, pytest.mark.slow]


@on_one_loop
async def test_of_a_client_that_is_stopped_nothing_is_left(cluster):
    await check_nothing_is_left_of_a_client(cluster, signal.SIGSTOP)
