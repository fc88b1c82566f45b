"""From the trace of a step to its message: how the time divides, the lanes, the critical path, Chrome's form."""

import dataclasses

import numpy as np
import pytest

import aioflow as af
from aioflow.dashboard.chrome_trace import chrome_trace
from aioflow.dashboard.sampling import Sample
from aioflow.dashboard.step_trace import critical_path, length, merged, step_of
from aioflow.dashboard.value_statistics import ValueCollector
from aioflow.graph.graph import Graph
from aioflow.tracing import NodeStats, RunMetadata, Transfer


def stats(name, start, end, *, device="/device:CPU:0", waits=False, thread=1):
    return NodeStats(name, "op", device, start, start, end, 8, thread, waits)


def sample(trace, seconds=10.0):
    return Sample(1000.0, 100.0, seconds, {}, ("c:0",), ("x:0",), trace, ValueCollector())


def test_spans_are_merged_and_cut():
    spans = merged([(1, 3), (2, 4), (6, 7), (-1, 0.5), (9, 20), (30, 40)], 0, 10)
    assert spans == [(0, 0.5), (1, 4), (6, 7), (9, 10)]
    assert length(spans) == 5.5


def test_the_time_of_a_step_is_computing_or_on_the_wire_or_waiting():
    trace = RunMetadata()
    trace.step_stats += [stats("a", 101, 103), stats("b", 102, 104, thread=2), stats("w", 100, 110, waits=True)]
    trace.transfers.append(Transfer("k", "/device:CPU:0", "/device:CPU:1", 8, 103.0, 102.0, 106.0, (1, 2)))
    step = step_of(sample(trace), Graph())
    assert (step.compute, step.wire, step.wait) == (3.0, 2.0, 5.0)
    assert [lane.device for lane in step.lanes] == ["/device:CPU:0", "/device:CPU:0", "/device:CPU:1"]
    assert [(bar.name, bar.start, bar.end) for bar in step.bars] == [("w", 0, 10), ("a", 1, 3), ("b", 2, 4)]
    (arrow,) = step.arrows
    assert (arrow.source, arrow.target, arrow.sent, arrow.arrived) == (0, 2, 3.0, 6.0)


def test_the_critical_path_goes_back_over_the_inputs_that_ended_last():
    graph = Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [], name="x")
        fast, slow = af.tanh(x, name="fast"), af.exp(x, name="slow")
        folded = af.identity(slow, name="folded")
        af.add(fast, folded, name="end")
    ran = [
        stats("x", 0, 1),
        stats("fast", 1, 2),
        stats("slow", 1, 5),
        stats("end", 5, 6),
        stats("end:0 to /job:worker/replica:0/task:0/device:CPU:0", 6, 9),  # made by the plan
    ]
    assert critical_path(ran, graph) == ["end", "slow", "x"]
    assert critical_path([], graph) == []


def test_long_traces_are_cut_to_the_longest_executions():
    trace = RunMetadata()
    trace.step_stats += [stats(f"n{number}", 100 + number / 1000, 100 + number / 500) for number in range(4000)]
    step = step_of(sample(trace), Graph())
    assert len(step.bars) == 3000
    assert step.left_out == 1000
    assert "n3999" in {bar.name for bar in step.bars}
    assert "n0" not in {bar.name for bar in step.bars}


def test_a_step_is_saved_in_chromes_form():
    trace = RunMetadata()
    trace.step_stats += [stats("a", 101, 103), stats("w", 100, 110, waits=True, device="/device:CPU:1")]
    trace.transfers.append(Transfer("k", "/device:CPU:0", "/device:CPU:1", 8, 103.0, 102.0, 106.0, (1, 1)))
    events = chrome_trace(step_of(sample(trace), Graph()))["traceEvents"]
    assert [event["ph"] for event in events] == ["M", "M", "M", "M", "b", "e", "X", "s", "f"]
    (bar,) = [event for event in events if event["ph"] == "X"]
    assert (bar["ts"], bar["dur"]) == (pytest.approx(1e6), pytest.approx(2e6))


def test_values_have_statistics_of_their_finite_numbers():
    collect = ValueCollector()
    collect("a", [np.array([1.0, np.nan, 3.0, np.inf], np.float32)])
    collect("ints", [np.array([[1, 2], [3, 6]])])
    collect("nan", [np.array([np.nan])])
    for name, value in {
        "empty": np.zeros(0),
        "large": np.zeros(1 << 17),
        "text": np.array(["a"]),
        "no array": 3,
    }.items():
        collect(name, [value])
    collect("nothing", [])
    found = {name: dataclasses.astuple(each)[1:] for name, each in collect.found.items()}
    assert found.keys() == {"a", "ints", "nan"}
    assert found["a"] == (4, 1.0, 3.0, 2.0, 2)
    assert found["ints"] == (4, 1.0, 6.0, 3.0, 0)
    assert found["nan"][-1] == 1
