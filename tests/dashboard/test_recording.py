"""A cluster training with a kill in it, recorded and replayed: every page has its content, and the numbers agree."""

import pytest

from aioflow import errors
from aioflow.dashboard.messages import (
    Cluster,
    Event,
    History,
    PlacedCall,
    Points,
    Step,
    Subject,
    Summaries,
    Training,
    Waits,
)
from aioflow.dashboard.recording import read_recording, replay
from tests.support.recorded_run import BACK, KILLED, record_training

WORKER = "/job:worker/replica:0/task:1"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return record_training(tmp_path_factory.mktemp("recorded") / "run.json")


@pytest.fixture(scope="module")
def messages(path):
    return list(read_recording(path))


def of(messages, kind):
    return [message for message in messages if isinstance(message, kind)]


def test_the_loss_of_a_task_and_its_return_are_events_of_the_cluster(messages):
    began = messages[0].began
    lost, back = [event for event in of(messages, Event) if event.task == WORKER]
    assert lost.level == "bad"
    assert KILLED <= lost.time - began <= KILLED + 2
    assert "restarted" in back.text
    assert BACK <= back.time - began <= BACK + 2
    states = [{task.name: task.state for task in cluster.tasks}[WORKER] for cluster in of(messages, Cluster)]
    assert states[0] == states[-1] == "up"
    assert "lost" in states
    texts = [event.text for event in of(messages, Event)]
    assert any(text.startswith("recovered in") for text in texts)
    assert any("checkpoint of step 50 is complete" in text for text in texts)


def test_tasks_are_connected_and_a_restarted_one_is_another_process(messages):
    first, last = (
        {task.name: task for task in clusters.tasks}
        for clusters in (of(messages, Cluster)[3], of(messages, Cluster)[-1])
    )
    assert first[WORKER].incarnation != last[WORKER].incarnation
    assert first["/job:ps/replica:0/task:0"].incarnation == last["/job:ps/replica:0/task:0"].incarnation
    links = {(task.name, link.task): link for task in last.values() for link in task.links}
    assert any(link.sent > 0 and link.received > 0 for link in links.values())
    speeds = [points.values[f"task:{WORKER}"] for points in of(messages, Points) if f"task:{WORKER}" in points.values]
    assert max(speeds) > 1


def test_training_goes_on_after_the_loss(messages):
    steps = [training.step for training in of(messages, Training)]
    assert steps[-1] > 200
    assert of(messages, Training)[-1].steps == 400
    assert of(messages, Training)[-1].left > 0
    losses = [training.values["loss"] for training in of(messages, Training) if "loss" in training.values]
    assert losses[-1] < losses[0]
    summaries = of(messages, Summaries)[-1]
    (histogram,) = summaries.histograms
    assert histogram.tag == "weights"
    assert sum(histogram.counts) == 32
    (picture,) = summaries.pictures
    assert picture.png.startswith("iVBORw0KGgo")  # PNG


def test_steps_are_traced_over_all_tasks(messages):
    steps = of(messages, Step)
    devices = {lane.device.split("/device")[0] for step in steps for lane in step.lanes}
    assert devices == {"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0", WORKER}
    assert all(step.compute + step.wire + step.wait == pytest.approx(step.seconds) for step in steps)
    assert any(step.arrows for step in steps)
    placed = {node.name: node for node in of(messages, PlacedCall)[-1].nodes}
    assert placed["replica1/loss"].device.startswith(WORKER)
    assert placed["replica1/loss"].reason


def test_waiting_operations_name_their_task(messages):
    waiters = [waiter for waits in of(messages, Waits) for waiter in waits.waiters if waiter.operation == "take"]
    assert waiters
    assert {waiter.task for waiter in waiters} == {"/job:ps/replica:0/task:0"}
    assert "recorded_run.py" in waiters[0].line


def test_a_replay_has_the_state_at_the_end(path, messages):
    board = replay(path).board
    assert board.newest(Subject) == messages[0]
    for kind in (Training, Cluster, Waits, Summaries):
        assert board.newest(kind) == of(messages, kind)[-1]
    assert list(board.steps) == [step.number for step in of(messages, Step)]
    (history,) = of(board.since(0), History)
    loss = [points.values["train:loss"] for points in of(messages, Points) if "train:loss" in points.values]
    assert history.series["train:loss"].values == tuple(loss)


def test_a_recording_that_was_cut_off_is_read_to_there(path, tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text(path.read_text()[:-20])
    assert len(list(read_recording(cut))) == len(list(read_recording(path))) - 1


def test_other_files_are_no_recordings(tmp_path):
    with pytest.raises(errors.NotFoundError, match="nothing"):
        replay(tmp_path / "nothing.json")
    other = tmp_path / "other.json"
    other.write_text('{"kind": "Event", "time": 1.0, "level": "info", "text": "x", "task": ""}\n')
    with pytest.raises(errors.DataLossError, match="subject"):
        replay(other)
    other.write_text('{"some": "json"}\n')
    with pytest.raises(errors.DataLossError, match="line 1"):
        replay(other)
