"""The testing tools: virtual time, gates, the leak check, and the fixtures that apply them to every test."""

import asyncio
import contextlib
import contextvars
import os
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow.testing import DeadlockError, Gate, LeakError, VirtualTimeLoop, no_leaks
from tests import conftest

pytest_plugins = ["pytester"]

DAY = 24 * 60 * 60.0


@pytest.fixture
def runner():
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        yield runner


class TestVirtualTime:
    async def test_a_test_runs_in_virtual_time_unless_marked_real(self):
        assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)

    async def test_the_clock_starts_at_zero_and_jumps_over_a_sleep(self):
        loop = asyncio.get_running_loop()
        assert loop.time() == 0
        await asyncio.sleep(40 * DAY)
        assert loop.time() == pytest.approx(40 * DAY)

    @given(st.lists(st.floats(0, 1e8)))
    async def test_sleepers_wake_in_order_at_the_moments_of_their_timers(self, delays):
        clock, woken = asyncio.get_running_loop().time, []
        started = clock()

        async def sleeper(delay):
            await asyncio.sleep(delay)
            woken.append(clock() - started)

        await asyncio.gather(*map(sleeper, delays))
        assert woken == pytest.approx(sorted(delays), abs=1e-5)

    async def test_a_time_limit_passes_without_waiting(self):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(DAY):
                await asyncio.Future()
        assert asyncio.get_running_loop().time() == pytest.approx(DAY)

    async def test_time_stands_still_while_something_is_ready(self):
        sleeper = asyncio.create_task(asyncio.sleep(1e-3))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not sleeper.done()
        await sleeper

    async def test_a_task_that_would_wait_for_a_socket_or_a_pipe_is_told_to_run_on_a_real_loop(self):
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            with pytest.raises(RuntimeError, match=f"a socket .descriptor {near.fileno()}.*a real event loop"):
                await asyncio.get_running_loop().sock_recv(near, 4)
        with contextlib.ExitStack() as ends:
            out, _ = (ends.enter_context(os.fdopen(end)) for end in os.pipe())
            with pytest.raises(RuntimeError, match=f"a file .descriptor {out.fileno()}"):
                asyncio.get_running_loop().add_reader(out, print)

    def test_a_socket_that_a_callback_begins_to_watch_fails_the_whole_run(self, runner):
        async def main():
            loop = asyncio.get_running_loop()
            wire, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ("127.0.0.1", 0))
            try:
                await asyncio.sleep(DAY)
            finally:
                wire.abort()

        with pytest.raises(RuntimeError, match="a real event loop"):
            runner.run(main())
        runner.run(asyncio.sleep(DAY))


class TestDeadlock:
    def test_it_names_each_waiting_task_and_the_lines_it_is_suspended_at(self, runner):
        async def inner():
            await asyncio.Event().wait()  # where inner waits

        async def outer():
            await inner()  # where outer waits

        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(outer(), name="the forgotten one")

        with pytest.raises(DeadlockError) as caught:
            runner.run(main())
        group, forgotten = sorted(caught.value.waiting, key=lambda text: "forgotten" in text)
        assert "TestDeadlock" in group
        assert "main" in group
        assert forgotten.startswith("the forgotten one (")
        assert forgotten.index("# where outer waits") < forgotten.index("# where inner waits")
        assert forgotten in str(caught.value)

    def test_a_deadlocked_task_still_cleans_up_when_its_runner_closes(self):
        cleaned = []

        async def main():
            try:
                await asyncio.Future()
            finally:
                cleaned.append(True)

        with pytest.raises(DeadlockError), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(main())
        assert cleaned

    def test_a_loop_without_tasks_is_a_deadlock_too(self):
        loop = VirtualTimeLoop()
        with contextlib.closing(loop), pytest.raises(DeadlockError, match="no task") as caught:
            loop.run_forever()
        assert caught.value.waiting == ()


class TestExecutor:
    async def test_work_runs_inline_and_its_pool_starts_no_thread(self):
        with ThreadPoolExecutor() as pool:
            call = asyncio.get_running_loop().run_in_executor(pool, lambda: (threading.get_ident(), time.sleep(0)))
            assert not call.done()
            assert await call == (threading.get_ident(), None)
        assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()

    async def test_work_sees_what_it_would_see_on_a_thread(self):
        variable = contextvars.ContextVar("variable", default="unset")
        variable.set("set")

        def work():
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return variable.get()

        assert await asyncio.get_running_loop().run_in_executor(None, work) == "unset"
        assert await asyncio.to_thread(work) == "set"
        assert asyncio.get_running_loop()

    async def test_an_error_in_the_work_reaches_whoever_awaits(self):
        with pytest.raises(SystemExit):
            await asyncio.to_thread(sys.exit)

    async def test_work_cancelled_before_its_turn_is_never_called(self):
        calls = []
        call = asyncio.get_running_loop().run_in_executor(None, calls.append, 1)
        call.cancel()
        await asyncio.sleep(1)
        assert calls == []


class TestGate:
    async def test_a_gate_holds_who_comes_until_it_is_opened(self):
        gate, passed = Gate(), []

        async def comer(name):
            await gate.wait()
            passed.append(name)

        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(comer(name))
            await gate.arrived(3)
            await asyncio.sleep(1)
            assert passed == []
            assert repr(gate) == "<Gate shut, 3 entered>"
            gate.open()
        assert passed == ["a", "b", "c"]

    async def test_an_open_gate_holds_nobody(self):
        gate = Gate()
        gate.open()
        await gate.wait()
        assert repr(gate) == "<Gate open, 1 entered>"

    async def test_many_may_wait_for_different_numbers_of_arrivals(self):
        gate, seen = Gate(), []

        async def watcher(count):
            await gate.arrived(count)
            seen.append((count, gate.entered))

        async with asyncio.TaskGroup() as group:
            for count in (0, 3, 1, 2):
                group.create_task(watcher(count))
            await asyncio.sleep(1)
            for _ in range(3):
                group.create_task(gate.wait())
                await asyncio.sleep(1)
            gate.open()
        assert seen == [(0, 0), (1, 1), (2, 2), (3, 3)]

    async def test_a_cancelled_wait_stays_counted_and_lets_the_others_be(self):
        gate = Gate()
        async with asyncio.TaskGroup() as group:
            impatient = group.create_task(gate.wait())
            group.create_task(gate.wait())
            await gate.arrived(2)
            impatient.cancel()
            gate.open()
        assert impatient.cancelled()
        assert gate.entered == 2


class TestNoLeaks:
    async def test_a_pending_task_is_named_with_the_line_it_is_suspended_at(self):
        gate = Gate()

        async def leave_a_task():
            task = asyncio.create_task(gate.wait(), name="the left one")
            await gate.arrived()
            return task

        with pytest.raises(LeakError) as caught, no_leaks():
            left = await leave_a_task()
        [leak] = caught.value.leaks
        assert leak.startswith("the left one (Gate.wait)")
        assert "await self._opened.wait()" in leak
        gate.open()
        await left

    @pytest.mark.parametrize("daemon", [True, False])
    def test_a_thread_is_named_daemon_or_not(self, daemon):
        end = threading.Event()
        thread = threading.Thread(target=end.wait, name="the left one", daemon=daemon)
        with pytest.raises(LeakError, match="the left one"), no_leaks():
            thread.start()
        end.set()
        thread.join()

    def test_a_thread_about_to_end_is_none(self):
        end = threading.Event()
        with no_leaks():
            threading.Thread(target=end.wait).start()
            threading.Timer(0.01, end.set).start()

    def test_a_socket_that_a_thread_closes_soon_is_no_leak(self):
        with no_leaks():
            threading.Timer(0.05, socket.create_server(("127.0.0.1", 0)).close).start()

    def test_a_socket_is_named_with_its_address(self):
        with pytest.raises(LeakError, match=r"127\.0\.0\.1"), no_leaks():
            left = socket.create_server(("127.0.0.1", 0))
        left.close()

    def test_an_unclosed_loop_is_left_behind(self):
        with pytest.raises(LeakError), no_leaks():
            loop = asyncio.new_event_loop()
        loop.close()

    @pytest.mark.sockets
    async def test_an_unclosed_transport_is_left_behind(self):
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        async with server:
            with pytest.raises(LeakError, match=r"raddr=\('127\.0\.0\.1'"), no_leaks():
                _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.close()
            await writer.wait_closed()

    @pytest.mark.sockets
    async def test_what_is_closed_and_awaited_leaves_nothing(self):
        with no_leaks():
            async with await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0) as server:
                reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
                await reader.read()
                writer.close()
                await writer.wait_closed()
            await asyncio.gather(*(asyncio.sleep(delay) for delay in (0, 1e-3)))

    @pytest.mark.real
    async def test_the_threads_of_a_running_loop_belong_to_the_loop(self):
        with no_leaks():
            await asyncio.to_thread(time.sleep, 0)

    def test_the_error_of_the_code_itself_comes_first(self):
        left = []

        def leave_a_socket_and_fail():
            left.append(socket.socket())
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError), no_leaks():
            leave_a_socket_and_fail()
        left.pop().close()


class TestFixtures:
    @pytest.mark.sockets
    async def test_a_test_with_sockets_runs_on_asyncio_and_on_uvloop(self, request):
        assert type(asyncio.get_running_loop()).__module__.split(".")[0] in request.node.name

    def test_a_slow_test_with_sockets_runs_on_one_loop_in_a_short_run_and_on_both_in_a_long_one(self, monkeypatch):
        def loops(name):
            item = SimpleNamespace(name=name, get_closest_marker=lambda mark: mark in ("sockets", "slow"))
            return tuple(conftest.pytest_asyncio_loop_factories(None, item))

        monkeypatch.setattr(conftest, "LONG", False)
        assert {loops(f"test_{number}") for number in range(20)} == {("asyncio",), ("uvloop",)}
        monkeypatch.setattr(conftest, "LONG", True)
        assert loops("test_0") == ("asyncio", "uvloop")

    def test_every_test_is_checked_for_leaks(self, pytester, monkeypatch):
        tests = Path(__file__).parents[1]
        monkeypatch.setenv("PYTHONPATH", str(tests.parent))
        pytester.makeconftest((tests / "conftest.py").read_text())
        pytester.makepyprojecttoml((tests.parent / "pyproject.toml").read_text())
        pytester.makepyfile(
            """
            import asyncio, pytest, socket, threading

            left = []

            async def test_leaves_a_task():
                left.append(asyncio.create_task(asyncio.sleep(3600)))

            @pytest.mark.sockets
            async def test_leaves_a_socket():
                left.append(socket.socket())

            def test_leaves_a_thread():
                left.append(threading.Thread(target=threading.Event().wait, daemon=True))
                left[-1].start()

            @pytest.mark.sockets
            async def test_leaves_nothing():
                await asyncio.to_thread(id, 1)

            def test_leaves_nothing_either():
                pass
            """
        )
        pytester.runpytest_subprocess(".").assert_outcomes(passed=7, errors=4)
