"""What a worker keeps of a session that its master makes anew."""

from types import SimpleNamespace
from typing import Any

import pytest

from aioflow.net.worker.worker_state import WorkerSession

OWNER: Any = SimpleNamespace()
GRAPH: Any = SimpleNamespace()


@pytest.mark.parametrize("times", [1, 3])
def test_a_session_that_is_made_anew_several_times_finds_the_graphs_of_steps_under_way(times):
    session = WorkerSession(OWNER, "counts")
    session.graphs[1] = GRAPH
    for _ in range(times):
        session = WorkerSession(OWNER, "counts", session)
    assert session.graph(1) is GRAPH


def test_a_session_of_another_master_does_not_find_them():
    session = WorkerSession(OWNER, "counts")
    session.graphs[1] = GRAPH
    assert WorkerSession(None, "counts", session).graph(1) is None
