"""A session beside another one runs another graph on the same objects, and ends with it."""

import asyncio

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.resources.containers import drop_shared
from aioflow.session.session_beside import SessionBeside
from aioflow.testing import Gate
from tests.support.doubles import gated


async def test_a_session_beside_another_shares_its_objects_and_ends_with_it():
    gate = Gate()
    with af.Graph().as_default() as trained:
        count = af.Variable(np.float32(1.0), name="count")
    async with af.Session(graph=trained) as session:
        await session.run(count.initializer)
        beside = SessionBeside(session, af.Graph())
        with beside.graph.as_default(), beside.graph.container(beside.own_container):
            own = af.Variable(np.float32(5.0), name="own")
        with beside.graph.as_default():
            same = af.Variable(np.float32(0.0), name="count")
            slow = gated(same.read_value(), gate)
        await beside.run([own.initializer, same.assign_add(2.0).op])
        assert [await session.run(count), await beside.run(own)] == [3.0, 5.0]
        running = asyncio.create_task(beside.run(slow))
        await gate.arrived()
    with pytest.raises(errors.CancelledError, match="the session was closed"):
        await running
    assert beside.closed
    assert drop_shared([beside.own_container]) == []
