"""Monitors: the lines that they accept from each other, and their reports to their own process."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow.devices import activity
from aioflow.net.transport import monitor, monitor_process
from aioflow.net.transport.credentials import Token
from aioflow.net.transport.liveness import State
from aioflow.net.transport.monitor import Monitor
from aioflow.net.transport.monitor_process import ACCEPT, DIAL, LONGEST_ANSWER, LONGEST_LINE, Connection
from aioflow.net.transport.websocket_server import WebSocketNetwork
from tests.support.cluster_processes import LONGEST, free_ports, soon

NAME, KEY = "0123456789abcdef" * 2, "0f" * 16
TURNING = "turning", 0.25, "-"


def pair(key=KEY):
    return Connection(DIAL, NAME, KEY, 0.5, ("127.0.0.1", 1)), Connection(ACCEPT, NAME, key, 0.5, None)


# Accepted lines


def test_the_other_end_reads_a_line():
    here, there = pair()
    assert there.read(here.line(("busy", 3.0, b"sort".hex()))) == ("busy", "3.00", b"sort".hex())
    assert here.read(there.line(TURNING)) == ("turning", "0.25", "-")


def test_a_forged_repeated_or_reflected_line_or_one_of_another_key_is_refused():
    here, there = pair()
    first, second = here.line(TURNING), here.line(TURNING)
    assert there.read(second)
    for line in (first, second):
        with pytest.raises(ValueError, match="is a repetition"):
            there.read(line)
    forged = here.line(TURNING).replace("turning", "stopped")
    reflected = there.line(TURNING)
    for line in (forged, reflected, pair("0e" * 16)[1].line(TURNING), "", " ", "x" * 99, "\x80 \x00"):
        with pytest.raises(ValueError, match="forged"):
            there.read(line)
    with pytest.raises(ValueError, match="forged"):
        pair("0e" * 16)[1].read(here.line(TURNING))


def test_only_changes_and_busy_reports_are_passed_on():
    here, _ = pair()
    said = ["turning", "turning", "busy", "busy", "stopped", "stopped", "turning"]
    assert [here.is_news(state) for state in said] == [True, False, True, True, True, False, True]


@pytest.mark.parametrize(("told", "text"), [("-", ""), ("zz", ""), (b"a\x1b[2Jb\n".hex(), "a?[2Jb?"), ("ff", "\ufffd")])
def test_a_monitors_text_has_no_control_characters(told, text):
    assert monitor._text(told) == text


# Questions about a process that is not connected yet


def test_a_question_is_answered_with_the_state_in_no_more_bytes():
    asked = monitor_process.question(KEY, NAME)
    said = monitor_process.answer(KEY, asked, "stopped", 123456.789)
    assert monitor_process.answered(KEY, NAME, said) == ("stopped", 123456.79)
    assert len(said) <= len(asked) == LONGEST_ANSWER


@given(st.binary(max_size=2 * LONGEST_ANSWER))
def test_no_other_datagram_is_answered_or_taken_for_an_answer(data):
    asked = monitor_process.question(KEY, NAME)
    for wrong in (data, data.ljust(LONGEST_ANSWER)[:LONGEST_ANSWER], asked[:-1], asked + b" ", asked[1:] + asked[:1]):
        assert monitor_process.answer(KEY, wrong, "turning", 0.0) is None
    assert monitor_process.answer("0e" * 16, asked, "turning", 0.0) is None
    said = monitor_process.answer(KEY, asked, "turning", 0.0)
    other = monitor_process.answer(KEY, monitor_process.question(KEY, NAME[::-1]), "turning", 0.0)
    for wrong in (data, asked, other, said.replace(b"turning", b"stopped"), said[:-1]):
        with pytest.raises(ValueError):  # noqa: PT011 - any
            monitor_process.answered(KEY, NAME, wrong)


async def refuse(channel):
    await channel.close()


@contextlib.asynccontextmanager
async def listening_at(address, token):
    """The address at which a task with that token listens."""
    listener = await WebSocketNetwork(token).listen(address, refuse)
    try:
        yield listener.address
    finally:
        await listener.close()


@contextlib.asynccontextmanager
async def asking(address, token):
    """The words that come back to a task with that token from an address."""
    words = asyncio.Queue()
    task = asyncio.ensure_future(WebSocketNetwork(token).ask(address, 1.0, words.put_nowait))
    try:
        yield words
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.sockets
async def test_a_listening_task_is_asked_at_its_address_by_those_who_have_its_token():
    token, other = Token("0123456789abcdef"), Token("another-token-of-16")
    async with contextlib.AsyncExitStack() as questions:
        async with listening_at("127.0.0.1:0", token) as address:
            words, *none = [await questions.enter_async_context(asking(address, its)) for its in (token, other, None)]
            assert [(await said(words)).state for _ in range(3)] == [State.TURNING] * 3
            assert [queue.empty() for queue in none] == [True, True]
        assert not Monitor._running


@pytest.mark.sockets
@pytest.mark.parametrize("token", [Token("0123456789abcdef"), None], ids=["token", "none"])
async def test_a_task_is_asked_at_each_address_of_its_name(monkeypatch, token):
    """As `localhost`, which stands for ::1 first, though the task listens at 127.0.0.1 alone."""
    loop = asyncio.get_running_loop()
    known = loop.getaddrinfo

    async def both(host, port, **options):
        found = [await known(each, port, **options) for each in ("::1", "127.0.0.1")]
        return [*found[0], *found[1]] if host == "both" else await known(host, port, **options)

    monkeypatch.setattr(loop, "getaddrinfo", both)
    async with (
        listening_at("127.0.0.1:0", token) as address,
        asking(address.replace("127.0.0.1", "both"), token) as words,
    ):
        assert (await said(words)).state is State.TURNING


@pytest.mark.sockets
@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one address of loopback")
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_cancelled_question_leaves_no_socket(monkeypatch, at_once):
    """It is cancelled when the socket is made, before or after the question knows that."""
    question, wires = None, []

    class Noted(monitor._Questions):
        def connection_made(self, transport):
            wires.append(transport)
            if at_once:
                question.cancel()
            else:
                asyncio.get_running_loop().call_soon(question.cancel)
            super().connection_made(transport)

    monkeypatch.setattr(monitor, "_Questions", Noted)
    monkeypatch.setattr(monitor, "message_interval", lambda heartbeat: 0.0)
    question = asyncio.ensure_future(monitor.ask("127.0.0.1:1", None, 1.0, lambda message: None))
    await asyncio.wait([question])
    assert question.cancelled()
    assert [wire.is_closing() for wire in wires] == [True]


@pytest.mark.sockets
async def test_an_answer_may_come_from_another_address_of_the_host():
    """A task that listens at all addresses answers from the one that the system chooses."""
    token = Token("0123456789abcdef")
    async with (
        listening_at("0.0.0.0:0", token) as address,
        asking(address.replace("0.0.0.0", "127.0.0.2"), token) as words,
    ):
        assert (await said(words)).state is State.TURNING


@pytest.mark.sockets
@pytest.mark.parametrize("used", [0, 1], ids=["first", "second"])
async def test_a_udp_port_in_use_costs_only_the_answers_at_its_own_address(used):
    with (
        socket.socket(type=socket.SOCK_DGRAM) as one, socket.socket(type=socket.SOCK_DGRAM) as other,
    ):  # fmt: skip
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        addresses = [each.getsockname() for each in (one, other)]
        (other, one)[used].close()
        (answers,) = monitor.answer(addresses, None, 1.0)
        answers.close()
    assert not Monitor._running


# Kernels on compute threads


def test_subscribers_get_the_kernels_on_threads_the_latest_first():
    shown, me, one, other = [], object(), object(), object()
    activity.begin(one, "nobody asks")
    activity.subscribe(me, shown.append)
    try:
        activity.begin(one, "sort")
        activity.begin(other, "unique")
        activity.end(one)
        for number in range(4):
            activity.begin(number, f"more {number}")
        for job in (*range(4), other, "never begun"):
            activity.end(job)
    finally:
        activity.unsubscribe(me)
    assert shown[:4] == ["", "sort", "unique, sort", "unique"]
    assert "more 3, more 2, more 1 and 2 more" in shown
    assert shown[-1] == ""


# The helper process


@pytest.fixture
async def listening():
    """A monitor that listens for one connection, and the list of its messages."""
    found = Monitor.of_running_loop()
    port = found.listen("127.0.0.1")
    watch = found.watch(ACCEPT, NAME, KEY, 1.0)
    watch.on_message = (words := asyncio.Queue()).put_nowait
    with contextlib.closing(watch):
        yield found, port, words


async def said(words):
    async with asyncio.timeout(LONGEST):
        return await words.get()


@pytest.mark.sockets
async def test_a_process_gets_the_reports_of_another_monitor_from_its_own(listening):
    _, port, words = listening
    there = Connection(DIAL, NAME, KEY, 0.5, None)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for state in ("turning", "busy", "stopped", "ended"):
        writer.write(there.line((state, 1.5, b"sort".hex())).encode() + b"\n")
        word = await said(words)
        assert (word.state, word.seconds, word.doing) == (State(state), 1.5, "sort")
    heard = Connection(DIAL, NAME, KEY, 0.5, None)
    assert heard.read((await reader.readline()).decode().strip())[0] == "turning"
    writer.close()
    await writer.wait_closed()


HOSTILE = {
    "nothing": b"",
    "no line": b"\xff" * 10_000,
    "an unknown connection": b"0" * 32 + b" 1 ended 0.00 - " + b"0" * 32 + b"\n",
    "a forged line": NAME.encode() + b" 1 ended 0.00 - " + b"0" * 32 + b"\n",
    "a long line": b"x" * (LONGEST_LINE + 1),
    "a page": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.sockets
async def test_unidentified_connections_are_closed_and_disturb_no_other(listening):
    _, port, words = listening
    there = Connection(DIAL, NAME, KEY, 0.5, None)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(there.line(TURNING).encode() + b"\n")
    assert (await said(words)).state is State.TURNING
    for sent in HOSTILE.values():
        reader, stranger = await asyncio.open_connection("127.0.0.1", port)
        stranger.write(sent)
        if sent:
            async with asyncio.timeout(LONGEST):
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
        stranger.close()
    writer.write(there.line(("stopped", 0.0, "-")).encode() + b"\n")
    assert (await said(words)).state is State.STOPPED
    assert words.empty()
    writer.close()
    await writer.wait_closed()


@pytest.mark.sockets
async def test_too_many_unidentified_connections_are_closed_and_their_places_reused(listening):
    _, port, words = listening
    strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(70)]
    reads = [asyncio.ensure_future(reader.read()) for reader, _ in strangers]
    async with asyncio.timeout(LONGEST):
        await asyncio.wait(reads, return_when="FIRST_COMPLETED")
    for _, writer in strangers:
        writer.close()
    await asyncio.gather(*reads, return_exceptions=True)
    there = Connection(DIAL, NAME, KEY, 0.5, None)

    async def refused():
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(there.line(TURNING).encode() + b"\n")
        await asyncio.sleep(0.2)
        writer.close()
        return words.empty()

    await soon(refused)


@pytest.mark.sockets
async def test_two_monitors_report_a_blocked_loop_to_each_other(listening):
    here, port, words = listening
    with contextlib.closing(here.watch(DIAL, NAME, KEY, 1.0, ("127.0.0.1", port))) as watch:
        watch.on_message = (back := asyncio.Queue()).put_nowait
        assert (await said(words)).state is (await said(back)).state is State.TURNING
        time.sleep(1.0)  # noqa: ASYNC251 - the test blocks the loop
        assert (await said(words)).state is (await said(back)).state is State.BUSY


@pytest.mark.sockets
async def test_a_monitor_dials_until_the_other_one_listens_and_again_when_the_connection_is_cut(listening):
    (port,) = free_ports(1)
    there, calls = Connection(ACCEPT, NAME, KEY, 0.5, None), asyncio.Queue()

    async def accept(reader, writer):
        calls.put_nowait(there.read((await reader.readline()).decode().strip())[0])
        writer.close()

    with contextlib.closing(listening[0].watch(DIAL, NAME, KEY, 1.0, ("127.0.0.1", port))):
        await asyncio.sleep(0.3)
        async with await asyncio.start_server(accept, "127.0.0.1", port):
            assert [await said(calls) for _ in range(3)] == ["turning"] * 3


@pytest.mark.sockets
async def test_a_monitor_that_is_killed_is_replaced_by_the_next_connection(listening):
    first, _, _ = listening
    os.kill(first.pid, signal.SIGKILL)

    async def known():
        return Monitor._running.get(asyncio.get_running_loop()) is first

    await soon(known)
    with contextlib.closing(Monitor.of_running_loop().watch(ACCEPT, NAME, KEY, 1.0)):
        assert Monitor.of_running_loop().pid != first.pid
    assert asyncio.get_running_loop() not in Monitor._running


@pytest.mark.sockets
async def test_without_a_program_to_start_there_is_no_monitor(monkeypatch):
    class Transport:
        def get_extra_info(self, name):
            return "127.0.0.1", 1

    monkeypatch.setattr("sys.executable", "")
    assert monitor.offer(Transport(), NAME, 5.0) is None
    assert monitor.watch(Transport(), NAME, 1, KEY, 5.0) is None
    monkeypatch.setattr("sys.executable", "/nonesuch")
    assert monitor.offer(Transport(), NAME, 5.0) is None
    monkeypatch.undo()
    monkeypatch.delattr(socket, "send_fds")
    assert monitor.offer(Transport(), NAME, 5.0) is None
