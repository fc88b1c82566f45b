"""How far training is, in one line."""

import errno
import fcntl
import io
import os
import struct
import sys
import termios
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import aioflow as af
from aioflow import errors
from aioflow.testing.simulated_cluster import SimulatedCluster
from aioflow.train.progress import Progress, ProgressHook, Speed
from aioflow.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunValues

ANEW = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture
def clock():
    return Clock()


# The speed


@given(st.lists(st.tuples(st.floats(0.01, 100), st.integers(0, 1000)), min_size=1, max_size=50))
def test_the_speed_is_that_between_two_of_the_steps_told_of_which_the_last_is_one(told):
    speed, now, step, seen = Speed(10.0), 0.0, 0, []
    for seconds, steps in told:
        now, step = now + seconds, step + steps
        speed.reached(now, step)
        seen.append((now, step))
    found = speed.steps_per_second
    speeds = [(step - earlier) / (now - when) for when, earlier in seen[:-1]]
    assert found is None if len(told) == 1 else found in speeds
    within = [when for when, _ in seen[:-1] if when >= now - 10.0]
    if within:
        since = next(when for (when, earlier), each in zip(seen, speeds, strict=False) if each == found)
        assert since <= within[0]


def test_the_speed_is_that_of_the_last_while():
    speed = Speed(10.0)
    assert speed.steps_per_second is None
    for now in range(100):
        speed.reached(float(now), now)
    assert speed.steps_per_second == 1.0
    for now in range(100, 111):
        speed.reached(float(now), 99 + 10 * (now - 99))
    assert speed.steps_per_second == 10.0


def test_the_speed_is_measured_anew_when_steps_are_taken_again():
    speed = Speed()
    speed.reached(0.0, 100)
    speed.reached(1.0, 200)
    speed.reached(2.0, 150)
    assert speed.steps_per_second is None
    speed.reached(3.0, 160)
    assert speed.steps_per_second == 10.0


# The line


def test_a_line_of_a_terminal_is_drawn_anew_and_ends_with_what_was_told_last(clock):
    stream = Terminal()
    with Progress(total_steps=100, examples_per_step=32, stream=stream, clock=clock) as progress:
        for step in range(1, 12):
            clock.now += 0.1
            progress.update(step, loss=np.float32(1 / step), workers=3, staleness=0.5)
    drawn = stream.getvalue().split(ANEW)
    assert drawn[1:3] == [
        "step 1/100 [....................]  loss 1  3 workers  staleness 0.5",
        "step 3/100 [=...................]  loss 0.3333  320 examples/s  0:10 left  3 workers  staleness 0.5",
    ]
    assert len(drawn) == 7
    assert (
        drawn[-1]
        == "step 11/100 [==..................]  loss 0.09091  320 examples/s  0:09 left  3 workers  staleness 0.5\n"
    )


def test_elsewhere_a_line_is_printed_every_ten_seconds(clock):
    stream = io.StringIO()
    progress = Progress(stream=stream, clock=clock)
    for step in range(0, 25):
        progress.update(step, accuracy=0.5)
        clock.now += 1.0
    progress.close()
    progress.close()
    assert stream.getvalue().splitlines() == [
        "step 0  accuracy 0.5",
        "step 10  accuracy 0.5  1 steps/s",
        "step 20  accuracy 0.5  1 steps/s",
        "step 24  accuracy 0.5  1 steps/s",
    ]


def test_a_line_is_no_longer_than_the_terminal_is_wide(clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "10")
    stream = Terminal()
    Progress(stream=stream, clock=clock).update(1, loss=0.123456)
    assert stream.getvalue() == f"{ANEW}step 1  l"


def test_a_line_fits_into_the_terminal_that_it_is_shown_on(clock):
    master, slave = os.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 20, 0, 0))
        with open(slave, "w", closefd=False) as stream:
            Progress(stream=stream, clock=clock).update(1, loss=0.123456, accuracy=0.5)
        assert os.read(master, 1000).decode() == f"{ANEW}step 1  loss 0.1235"[: len(ANEW) + 19]
    finally:
        os.close(master)
        os.close(slave)


class Unread(io.StringIO):
    """A pipe whose other end is closed after some writes."""

    def __init__(self, writes):
        super().__init__()
        self.left = writes

    def write(self, text):
        if not self.left:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        self.left -= 1
        return super().write(text)


@pytest.mark.parametrize("writes", [0, 1])
def test_training_goes_on_when_nobody_reads_its_progress_any_more(clock, caplog, writes):
    stream = Unread(writes)
    with Progress(stream=stream, every=0, clock=clock) as progress:
        for step in (1, 2, 3):
            progress.update(step)
        progress.note("a note")
    assert stream.getvalue() == "step 1\n" * writes
    assert caplog.text.count("progress is not shown any more: [Errno 32] Broken pipe") == 1


def test_training_goes_on_when_the_stream_is_closed(clock, caplog):
    stream = Terminal()
    progress = Progress(stream=stream, every=0, clock=clock)
    progress.update(1)
    stream.close()
    progress.update(2)
    progress.close()
    assert "progress is not shown any more: I/O operation on closed file" in caplog.text


def test_a_process_without_stderr_shows_nothing(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with Progress(clock=clock) as progress:
        progress.update(1)
        progress.note("a note")


def test_a_number_may_be_in_an_array_of_its_own(clock):
    stream = io.StringIO()
    progress = Progress(stream=stream, clock=clock)
    with pytest.raises(ValueError, match=r"loss must be one number, not an array of shape \[2\]"):
        progress.update(1, loss=np.zeros(2))
    progress.update(1, loss=np.array([0.5], np.float32), staleness=np.array([[2]]), accuracy=np.float16(0.25))
    assert stream.getvalue() == "step 1  loss 0.5  accuracy 0.25  staleness 2\n"


def test_a_note_stays_and_the_line_goes_on_below(clock):
    stream = Terminal()
    with Progress(stream=stream, clock=clock) as progress:
        progress.note("it begins")
        progress.update(1)
        progress.note("something happened")
    assert stream.getvalue() == f"{ANEW}it begins\n{ANEW}step 1{ANEW}something happened\n{ANEW}step 1\n"
    stream = io.StringIO()
    with Progress(stream=stream, clock=clock) as progress:
        progress.note("something happened")
    assert stream.getvalue() == "something happened\n"


def test_nothing_is_shown_of_nothing():
    stream = Terminal()
    with Progress(stream=stream):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.0, "0:01 left"), (59.9, "1:00 left"), (3599, "59:59 left"), (36_061, "10:01:01 left")]
)
def test_how_much_is_left_is_told_in_hours_minutes_and_seconds(clock, seconds, text):
    stream = Terminal()
    progress = Progress(total_steps=2, stream=stream, clock=clock)
    progress.update(0)
    clock.now = seconds
    progress.update(1)
    assert text in stream.getvalue()


def test_without_a_loop_the_time_is_that_of_the_machine(monkeypatch):
    monkeypatch.setattr(time, "monotonic", iter([5.0, 6.0, 6.0]).__next__)
    stream = Terminal()
    progress = Progress(stream=stream)
    progress.update(1)
    progress.update(3)
    assert stream.getvalue().endswith("step 3  2 steps/s")


# The hook


@pytest.fixture
def graph():
    with af.Graph().as_default() as graph:
        yield graph


async def run(session, hook, train, times):
    """Runs as a monitored session makes them; what the hook asked for in each."""
    asked = []
    for _ in range(times):
        context = SessionRunContext(SessionRunArgs(train), session)
        wanted = hook.before_run(context)
        asked.append(wanted is not None)
        fetches = {"train": train, "hook": None if wanted is None else wanted.fetches}
        found = await session.run({name: fetch for name, fetch in fetches.items() if fetch is not None})
        hook.after_run(context, SessionRunValues(found.get("hook"), None, None))
    return asked


async def test_the_hook_asks_for_values_only_when_they_are_shown(graph, clock):
    step = af.train.get_or_create_global_step()
    loss = af.constant(0.25)
    train = step.assign_add(1)
    stream = Terminal()
    progress = Progress(10, 4, stream=stream, every=1.0, clock=clock)
    hook = ProgressHook(loss, staleness=af.constant(2), workers=af.constant(5), progress=progress)
    hook.begin()
    async with af.Session(graph=graph) as session:
        await session.run(step.initializer)
        await hook.after_create_session(session, None)
        assert await run(session, hook, train.op, 3) == [False] * 3
        clock.now = 1.0
        with_values = await run(session, hook, train.op, 2)
        assert with_values == [True, False]
        await hook.end(session)
    first, second, last = stream.getvalue().split(ANEW)[1:]
    assert first == "step 0/10 [....................]"
    assert second == "step 4/10 [========............]  loss 0.25  16 examples/s  0:02 left  5 workers  staleness 2"
    assert last == "step 5/10 [==========..........]  loss 0.25  20 examples/s  0:01 left  5 workers  staleness 2\n"


async def test_the_hook_counts_the_tasks_that_train(graph, clock):
    stream = io.StringIO()
    with af.device("/job:ps"):
        step = af.train.get_or_create_global_step()
    train = step.assign_add(1)
    hook = ProgressHook(progress=Progress(stream=stream, every=0.0, clock=clock))
    hook.begin()
    async with (
        SimulatedCluster({"ps": 2, "worker": 3}) as cluster,
        af.Session(cluster.target("worker", 0), graph=graph) as session,
    ):
        await session.run(step.initializer)
        await hook.after_create_session(session, None)
        await run(session, hook, train.op, 1)
        await hook.end(session)
    assert stream.getvalue().splitlines()[-1] == "step 1  3 workers"


async def test_a_recovery_has_a_line_of_its_own(graph, clock):
    stream = Terminal()
    hook = ProgressHook(progress=Progress(stream=stream, clock=clock))
    recovery = af.train.Recovery(errors.UnavailableError("ps0 is gone"), None, (), (), 10, 7, 32, 1.5)
    hook.after_recovery(None, recovery)
    assert stream.getvalue() == f"{ANEW}{recovery}\n"


async def test_a_monitored_session_shows_how_far_it_is(graph):
    step = af.train.get_or_create_global_step()
    train = step.assign_add(1)
    stream = io.StringIO()
    hook = af.train.ProgressHook(af.constant(0.5), progress=af.train.Progress(3, stream=stream, every=0.0))
    async with af.train.MonitoredSession(hooks=[hook]) as session:
        for _ in range(3):
            await session.run(train)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "step 0/3"
    assert lines[-1].startswith("step 3/3")


def test_the_hook_needs_a_global_step(graph):
    with pytest.raises(RuntimeError, match="ProgressHook needs a global step"):
        ProgressHook(progress=Progress(stream=io.StringIO())).begin()


def test_by_default_it_is_shown_on_stderr(capsys):
    assert "COLUMNS" in os.environ
    with Progress() as progress:
        progress.update(1)
    assert capsys.readouterr().err == "step 1\n"
