"""Each story has a graph; a cluster that is watched and a session of it, whose master does nothing else, if it asks."""

import pytest

import aioflow as af
from aioflow.testing import no_pending_tasks
from tests.stories.witness import WORKERS, World, settled


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def world():
    with no_pending_tasks():
        async with World() as world:
            yield world
            await settled()
            assert world.held() == []


@pytest.fixture
async def session(graph, world):
    async with af.Session(world.target("master", 0), graph=graph, config=WORKERS) as session:
        yield session
