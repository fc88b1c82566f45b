"""A client that is stopped, and so silent, leaves nothing on any task either."""

import signal

import pytest
from cluster_processes import on_one_loop
from test_cluster_processes_orphans import check_nothing_is_left_of_a_client

pytest_plugins = ["three_processes"]
pytestmark = [pytest.mark.real, pytest.mark.slow]


@on_one_loop
async def test_of_a_client_that_is_stopped_nothing_is_left(cluster):
    await check_nothing_is_left_of_a_client(cluster, signal.SIGSTOP)
