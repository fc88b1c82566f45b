"""What a page gets when it comes, when it goes on, and when it has slept."""

from dataclasses import replace

import pytest

from aioflow.dashboard import board as boards
from aioflow.dashboard.board import Board
from aioflow.dashboard.messages import (
    Event,
    Graph,
    GraphNode,
    GraphSummary,
    History,
    Points,
    Step,
    StepSummary,
    Subject,
    Waits,
)

SUBJECT = Subject("session", "session", "1", 0.0, ("run",))
STEP = Step(1, 0.0, 1.0, 0.5, 0.25, 0.25, (), (), (), (), (), ())
WAITS = Waits(1.0, False, (), (), (), ())


@pytest.fixture
def board():
    return Board()


def test_a_new_page_gets_the_whole_state_and_then_only_what_changed(board):
    for message in (
        SUBJECT,
        Points(1.0, {"rate:steps": 5.0}),
        WAITS,
        replace(WAITS, time=2.0),
        Event(1.0, "info", "x"),
    ):
        board.post(message)
    first = board.since(0)
    assert first[0].series["rate:steps"].values == (5.0,)
    assert first[1:] == [SUBJECT, replace(WAITS, time=2.0), Event(1.0, "info", "x")]
    seen = board.revision
    assert board.since(seen) == []
    board.post(Points(2.0, {"rate:steps": 6.0}))
    board.post(replace(WAITS, time=3.0))
    assert board.since(seen) == [Points(2.0, {"rate:steps": 6.0}), replace(WAITS, time=3.0)]


def test_a_page_that_has_slept_gets_the_newest_state_and_no_queue(board):
    board.post(SUBJECT)
    seen = board.revision
    for number in range(5000):
        board.post(Points(float(number), {"rate:steps": 1.0}))
        board.post(replace(WAITS, time=float(number)))
        board.post(Event(float(number), "info", str(number)))
    found = board.since(seen)
    assert isinstance(found[0], History)
    assert [message for message in found if isinstance(message, Waits)] == [replace(WAITS, time=4999.0)]
    assert len(found) == 1 + 1 + boards.EVENTS


def test_large_messages_are_announced_and_kept_in_bounds(board):
    graph = Graph(3, (GraphNode("a", "add", (), (), (), "", ""),), 4)
    board.post(graph)
    for number in range(100):
        board.post(replace(STEP, number=number))
    found = board.since(0)
    assert GraphSummary(3, 5) in found
    assert [each.number for each in found if isinstance(each, StepSummary)] == list(range(100 - boards.STEPS, 100))
    assert list(board.steps) == list(range(100 - boards.STEPS, 100))
    assert board.graph is graph
    other = Board()
    for message in board.everything():
        other.post(message)
    assert other.steps == board.steps
    assert other.graph == graph
