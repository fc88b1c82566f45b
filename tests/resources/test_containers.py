"""Containers: whose a variable is, how long it lives, who shares it, and how it is dropped."""

import asyncio
import threading

import numpy as np
import pytest

import aioflow as af
from aioflow.kernels.state.variables import assign_add_variable, variable
from aioflow.resources.containers import drop_shared, shared_container
from aioflow.testing import Gate
from tests.support.doubles import gated


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture(autouse=True)
def nothing_is_shared():
    yield
    for container in drop_shared(None):
        container.clear()


def shared(graph, container, value=0.0, name="v"):
    with graph.container(container):
        return af.Variable(value, name=name)


def another(container, value=0.0, name="v"):
    """The same variable as another program builds it, in a graph of its own."""
    with af.Graph().as_default() as graph:
        return graph, shared(graph, container, value, name)


class TestDefaultContainer:
    async def test_each_session_has_its_own(self, graph):
        v = af.Variable(1.0, name="v")
        async with af.Session(graph=graph) as first, af.Session(graph=graph) as second:
            await first.run(v.initializer)
            await first.run(v.assign(5.0))
            with pytest.raises(af.errors.FailedPreconditionError, match="'v' is not initialized"):
                await second.run(v)
            await second.run(v.initializer)
            assert await first.run(v) == 5.0
            assert await second.run(v) == 1.0

    async def test_it_is_not_found_by_a_later_session(self, graph):
        v = af.Variable(1.0)
        async with af.Session(graph=graph) as session:
            await session.run(v.initializer)
        async with af.Session(graph=graph) as session:
            assert not await session.run(af.is_variable_initialized(v))

    async def test_reset_leaves_it_alone(self, graph):
        v = af.Variable(1.0)
        async with af.Session(graph=graph) as session:
            await session.run(v.initializer)
            await af.reset()
            assert await session.run(v) == 1.0


class TestNamedContainer:
    async def test_sessions_share_it_by_name_even_with_graphs_of_their_own(self, graph):
        v = shared(graph, "models")
        other_graph, w = another("models")
        async with af.Session(graph=graph) as first, af.Session(graph=other_graph) as second:
            await first.run(v.initializer)
            await first.run(v.assign_add(2.0))
            assert await second.run(w) == 2.0
            await second.run(w.assign_add(3.0))
            assert await first.run(v) == 5.0

    async def test_it_outlives_the_sessions(self, graph):
        v = shared(graph, "models")
        async with af.Session(graph=graph) as session:
            await session.run([v.initializer])
            await session.run(v.assign(7.0))
        other_graph, w = another("models")
        async with af.Session(graph=other_graph) as session:
            assert await session.run(w) == 7.0

    async def test_containers_of_other_names_are_apart(self, graph):
        v, w = shared(graph, "a", name="v"), shared(graph, "b", name="v")
        async with af.Session(graph=graph) as session:
            await session.run(v.initializer)
            with pytest.raises(af.errors.FailedPreconditionError):
                await session.run(w)

    async def test_variables_of_other_names_are_apart(self, graph):
        v, w = shared(graph, "a", 1.0, "v"), shared(graph, "a", 2.0, "w")
        async with af.Session(graph=graph) as session:
            await session.run([v.initializer, w.initializer])
            assert await session.run([v, w]) == [1.0, 2.0]

    async def test_a_name_shared_as_another_kind_of_value_is_refused_naming_both(self, graph):
        v = shared(graph, "models", np.zeros(3, np.float32))
        other_graph, w = another("models", np.zeros(4, np.float32))
        async with af.Session(graph=graph) as first, af.Session(graph=other_graph) as second:
            await first.run(v.initializer)
            with pytest.raises(af.errors.InvalidArgumentError, match=r"'v' is shared as float32\[3\]") as caught:
                await second.run(w.initializer)
            assert "float32[4]" in str(caught.value)

    async def test_the_order_of_one_variable_holds_for_all_its_handles(self, graph):
        v = shared(graph, "models", 1.0)
        twin = variable(af.float32, [], container="models", shared_name="v")
        before = v.read_value()
        changed = assign_add_variable(twin, 1.0)
        after = v.read_value()
        async with af.Session(graph=graph) as session:
            await session.run(v.initializer)
            assert await session.run([after, changed, before]) == [2.0, 2.0, 1.0]

    @pytest.mark.parametrize("name", ["_private", "with space", "ü", "a:b"])
    async def test_a_malformed_name_is_refused(self, graph, name):
        with pytest.raises(ValueError, match="is not a valid container name: letters, digits"):
            shared(graph, name)
        v = variable(af.float32, [], container=name)
        async with af.Session(graph=graph) as session:
            with pytest.raises(ValueError, match="is not a valid container name: letters, digits"):
                await session.run(v.op)

    async def test_updates_of_many_sessions_are_all_counted(self, graph):
        v = shared(graph, "models")
        add = v.assign_add(1.0).op
        sessions = [af.Session(graph=graph) for _ in range(4)]
        await sessions[0].run(v.initializer)
        await asyncio.gather(*[session.run(add) for session in sessions for _ in range(50)])
        assert await sessions[0].run(v) == 200.0
        for session in sessions:
            await session.close()

    @pytest.mark.real
    async def test_sessions_of_other_threads_share_it_too(self, graph):
        v = shared(graph, "models")
        add = v.assign_add(1.0).op

        async def use():
            async with af.Session(graph=graph) as session:
                for _ in range(100):
                    await session.run(add)

        async with af.Session(graph=graph) as session:
            await session.run(v.initializer)
            threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(3)]
            for thread in threads:
                thread.start()
            await use()
            for thread in threads:
                thread.join()
            assert await session.run(v) == 400.0


class TestReset:
    async def test_what_is_in_the_named_containers_is_gone(self, graph):
        a, b = shared(graph, "a", 1.0, "v"), shared(graph, "b", 2.0, "w")
        async with af.Session(graph=graph) as session:
            await session.run([a.initializer, b.initializer])
        (state,) = shared_container("a").objects().values()
        await af.reset(["a"])
        assert not state.initialized
        async with af.Session(graph=graph) as session:
            assert await session.run(b) == 2.0
            with pytest.raises(af.errors.FailedPreconditionError, match="not initialized"):
                await session.run(a)

    async def test_without_names_all_are_gone(self, graph):
        a, b = shared(graph, "a", 1.0, "v"), shared(graph, "b", 2.0, "w")
        async with af.Session(graph=graph) as session:
            await session.run([a.initializer, b.initializer])
        await af.reset()
        async with af.Session(graph=graph) as session:
            initialized = [af.is_variable_initialized(v) for v in (a, b)]
            assert await session.run(initialized) == [False, False]

    async def test_names_that_do_not_exist_are_no_error(self):
        await af.reset(["never", "heard"])

    async def test_a_bare_name_is_refused(self):
        with pytest.raises(TypeError, match="containers are a list of names, not 'models'"):
            await af.reset("models")

    async def test_sessions_that_used_them_are_closed_and_others_are_not(self, graph):
        a, own = shared(graph, "a"), af.Variable(1.0)
        user, other = af.Session(graph=graph), af.Session(graph=graph)
        await user.run(a.initializer)
        await other.run(own.initializer)
        await af.reset(["a"])
        with pytest.raises(RuntimeError, match="closed"):
            await user.run(a)
        assert await other.run(own) == 1.0
        await other.close()

    async def test_their_runs_end_with_an_error_of_ours(self, graph):
        a, gate = shared(graph, "a"), Gate()
        user = af.Session(graph=graph)
        await user.run(a.initializer)
        run = asyncio.create_task(user.run(a.assign(gated(5.0, gate))))
        await gate.arrived()
        await af.reset()
        with pytest.raises(af.errors.CancelledError, match="session was closed"):
            await run

    @pytest.mark.real
    async def test_a_session_of_another_thread_is_closed_there(self, graph):
        a, begun, gate = shared(graph, "a"), threading.Event(), Gate()
        waits = gated(a, gate)
        ended = []

        async def use():
            session = af.Session(graph=graph)
            await session.run(a.initializer)
            begun.set()
            try:
                await session.run(waits)
            except af.errors.CancelledError as error:
                ended.append(error)

        thread = threading.Thread(target=lambda: asyncio.run(use()))
        thread.start()
        await asyncio.to_thread(begun.wait)
        await af.reset()
        await asyncio.to_thread(thread.join)
        assert len(ended) == 1

    def test_a_session_whose_loop_does_not_run_is_closed_for_later(self, graph):
        a = shared(graph, "a")
        session = af.Session(graph=graph)
        loop = asyncio.new_event_loop()
        loop.run_until_complete(session.run(a.initializer))
        asyncio.run(af.reset())
        with pytest.raises(RuntimeError, match="closed"):
            loop.run_until_complete(session.run(a))
        loop.close()
