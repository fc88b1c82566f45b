import json
import math

import pytest

from aioflow.dashboard.messages import (
    KINDS,
    Arrow,
    Bar,
    Event,
    Graph,
    GraphNode,
    History,
    Lane,
    Points,
    SeriesHistory,
    Step,
    ValueStatistics,
    WaitCycle,
    WaitEdge,
    Waiter,
    WaitingCaller,
    Waits,
    clip,
    from_json,
    to_json,
)

HOSTILE = '<script>alert("1")</script>\u202e\x00\'"`' + "x" * 300
SAMPLES = [
    Points(1.5, {"rate:steps": 2.0, HOSTILE: 3.0}),
    History({"value:loss": SeriesHistory((1.0, 2.0), (0.5, 0.25))}),
    Event(1.0, "bad", HOSTILE, "/job:worker/task:1"),
    Graph(7, (GraphNode(HOSTILE, "add", (0, 1), (2,), ("float32 [2]",), "", "a.py:1 in f"),), 3),
    Step(
        4, 1.0, 0.5, 0.25, 0.125, 0.125, ("loss:0",), ("x:0",), (Lane("/device:CPU:0", "MainThread"),),
        (Bar("a", "add", 0, 0.0, 0.1, 0.2, 8, False),), (Arrow("k", 0, 0, 0.1, 0.2, 8),), ("a",),
        (ValueStatistics("a", 4, 0.0, 1.0, 0.5, 0),), 1,
    ),
    Waits(
        2.0, True, (Waiter(1, "take", "queue_dequeue", "a.py:1", 3.0, "take", "", "", False, ""),),
        (WaitingCaller("put", 1.0, "Task-1", "a.py:2"),),
        (WaitCycle((WaitEdge(1, "a", "b", "a.py:1", "/device:CPU:0", "take", "c", 0),)),), ("note",),
    ),
]  # fmt: skip


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message):
    text = to_json(message)
    assert "\n" not in text
    assert from_json(text) == message


def test_numbers_that_json_lacks_are_gaps():
    text = to_json(Points(1.0, {"value:loss": math.nan, "rate:steps": math.inf}))
    assert json.loads(text)["values"] == {"value:loss": None, "rate:steps": None}
    assert math.isnan(from_json(text).values["value:loss"])


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"kind": "Nothing"}', '{"kind": "Event"}', '{"kind": "Event", "time": 1, "level": 2, "text": ""}',
     '{"kind": "Points", "time": 1, "values": [], "more": 1}', "[" * 100_000],
)  # fmt: skip
def test_other_texts_are_no_messages(text):
    with pytest.raises(ValueError, match=r"no message of a live page|Expecting value"):
        from_json(text)


def test_every_kind_is_plain_data():
    assert all(kind.__dataclass_params__.frozen and "__slots__" in vars(kind) for kind in KINDS.values())


def test_long_texts_keep_their_begin_and_end():
    clipped = clip("a" * 10_000 + "z")
    assert len(clipped) <= 401
    assert clipped.startswith("aaa")
    assert clipped.endswith("az")
