"""What pages see of waits, graphs, training and served models, beside what the program itself reports."""

import asyncio
import dataclasses

import numpy as np
import pytest

import aioflow as af
from aioflow.dashboard.graph_source import MOST, graph_message
from aioflow.dashboard.messages import Event, Graph, History, PlacedCall, Serving, Summaries, Training, Waits
from aioflow.dashboard.watched import monitor_of
from aioflow.session.training_report import TrainingReport


def clock():
    return asyncio.get_running_loop().time()


def newest(board, kind):
    found = board.newest(kind)
    assert isinstance(found, kind)
    return found


async def test_waits_are_those_of_explain_and_a_cycle_is_stuck():
    with af.Graph().as_default() as graph:
        first, second = (af.FIFOQueue(1, [af.float32], shapes=[[]], name=name) for name in ("first", "second"))
        there = second.enqueue(first.dequeue(name="take_first"), name="put_second")
        back = first.enqueue(second.dequeue(name="take_second"), name="put_first")
    async with af.Session(graph=graph) as session:
        monitor = monitor_of(session, clock)
        with monitor.viewer() as board:
            await asyncio.sleep(2)
            assert not newest(board, Waits).waiters
            runs = [asyncio.create_task(session.run(each)) for each in (there, back)]
            caller = asyncio.create_task(session.queue(first).take(), name="the caller")
            await asyncio.sleep(6)
            waits, report = newest(board, Waits), await session.explain()
            assert [(each.step, each.operation, each.line, each.what) for each in waits.waiters] == [
                (each.step, each.operation, each.line, each.what) for each in report.waits
            ]
            assert [each.task for each in waits.callers] == ["the caller"]
            assert [[edge.operation for edge in cycle.edges] for cycle in waits.cycles] == [
                [edge.operation for edge in cycle.edges] for cycle in report.cycles
            ]
            assert waits.stuck
            for task in (*runs, caller):
                task.cancel()
            await asyncio.gather(*runs, caller, return_exceptions=True)
            await asyncio.sleep(2)
            assert not newest(board, Waits).waiters
        await monitor.close()


async def test_a_lone_waiter_is_stuck_only_after_some_seconds():
    with af.Graph().as_default() as graph:
        taken = af.FIFOQueue(1, [af.float32], shapes=[[]]).dequeue()
    async with af.Session(graph=graph) as session:
        monitor = monitor_of(session, clock)
        with monitor.viewer() as board:
            run = asyncio.create_task(session.run(taken))
            await asyncio.sleep(2)
            assert not newest(board, Waits).stuck
            await asyncio.sleep(6)
            assert newest(board, Waits).stuck
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        await monitor.close()


async def test_the_graph_comes_again_when_it_has_grown_and_calls_are_placed():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 2], name="x")
        with af.name_scope("inner"), af.device("/cpu:0"):
            y = af.tanh(x * 2.0, name="y")
    async with af.Session(graph=graph) as session:
        monitor = monitor_of(session, clock)
        with monitor.viewer() as board:
            for _ in range(80):
                await session.run(y, {x: np.ones((1, 2))})
                await asyncio.sleep(0.1)
            nodes = {node.name: node for node in board.graph.nodes}
            node = nodes["inner/y"]
            assert node.op_type == "tanh"
            assert "test_sources.py" in node.line
            assert "CPU:0" in node.device.upper()
            assert node.outputs == ("float32 [?, 2]",)
            assert [board.graph.nodes[number].op_type for number in node.inputs] == ["multiply"]
            placed = {each.name: each for each in newest(board, PlacedCall).nodes}
            expected = {each.name: each for each in (await session.placement(y, [x])).nodes}
            assert placed["inner/y"].device == expected["inner/y"].device
            assert placed["inner/y"].reason == expected["inner/y"].reason
            before = board.graph.version
            with graph.as_default():
                af.negative(y)
            await asyncio.sleep(3)
            assert board.graph.version == before + 1
        await monitor.close()


def test_a_graph_has_so_many_operations_and_no_more():
    with af.Graph().as_default() as graph:
        x = af.constant(1.0)
        for _ in range(30):
            x = af.negative(x)
    whole = graph_message(graph)
    assert isinstance(whole, Graph)
    assert len(whole.nodes) == 31
    assert whole.left_out == 0
    assert MOST >= 10_000


async def test_fit_is_followed_by_step_and_epoch():
    model = af.Sequential([af.layers.Dense(4, activation="relu"), af.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse", metrics=["mae"])
    x = np.ones((40, 3), np.float32)

    class Slow(af.callbacks.Callback):
        async def on_epoch_end(self, epoch, logs):
            await asyncio.sleep(1)

    async with af.Session(graph=model.graph) as session:
        monitor = monitor_of(session, clock)
        with monitor.viewer() as board:
            await asyncio.sleep(1)
            reports = []
            session.listeners.add(reports.append)
            given = {"epochs": 3, "batch_size": 8, "validation_data": (x, x[:, :1]), "verbose": 0, "session": session}
            history = await model.fit(x, x[:, :1], callbacks=[Slow()], **given)
            training = newest(board, Training)
            assert (training.step, training.steps, training.epoch, training.epochs) == (15, 15, 2, 3)
            assert [epoch.number for epoch in training.history] == [0, 1, 2]
            for name, values in history.history.items():
                assert [epoch.values[name] for epoch in training.history] == values
            assert training.values["learning_rate"] == pytest.approx(0.01)
            assert [report.ends_epoch for report in reports] == [False, True] * 3  # not each of the 5 batches
        await monitor.close()
        await asyncio.sleep(1)
        assert session.listeners == {reports.append}


async def test_models_show_calls_batches_and_versions_as_their_batchers_count_them():
    with af.Graph().as_default() as graph:
        x = af.placeholder(af.float32, [None, 2], name="x")
        scale = af.Variable(2.0)
        y = x * scale
        init = af.global_variables_initializer()
    signature = af.saved_model.Signature({"x": x}, {"y": y})
    async with af.Session(graph=graph) as session, af.serving.Models() as models:
        await session.run(init)
        publication = await models.publish("<b>scale</b>", session, {"serving_default": signature})
        monitor = monitor_of(models, clock)
        batcher = models.find("<b>scale</b>").runners[0].batcher
        assert batcher.observer is None
        with monitor.viewer() as board:
            await asyncio.sleep(1)
            before = dataclasses.replace(batcher.statistics, batches=dict(batcher.statistics.batches))
            for rows in (1, 3, 5):
                found = await models.find("<b>scale</b>").infer({"x": np.ones((rows, 2), np.float32)})
                assert found["y"].shape == (rows, 2)
            await asyncio.sleep(20)
            (model,) = newest(board, Serving).models
            assert model.name == "<b>scale</b>"
            assert model.calls == batcher.statistics.calls - before.calls == 3
            assert model.rows == batcher.statistics.rows - before.rows == 9
            assert sum(model.batches.values()) == sum(batcher.statistics.batches.values()) - sum(
                before.batches.values()
            )
            assert model.batch_rows[:4] == (1, 0, 1, 1)
            assert len(model.call_seconds) == 3
            await publication.publish()
            await asyncio.sleep(20)
            (model,) = newest(board, Serving).models
            assert (model.versions[0].number, model.versions[0].state) == (2, "available")
        await asyncio.sleep(1)
        assert models.find("<b>scale</b>").runners[0].batcher.observer is None
        assert not models.observers
        await monitor.close()


async def test_a_session_that_is_not_open_has_no_page():
    with af.Graph().as_default() as graph:
        af.constant(1.0)
    session = af.Session(graph=graph)
    await session.close()
    with pytest.raises(RuntimeError, match="open it first"):
        monitor_of(session)


async def test_summaries_that_cannot_be_read_do_not_fail_the_training():
    async with af.Session(graph=af.Graph()) as session:
        monitor = monitor_of(session, clock)
        with monitor.viewer() as board:
            await asyncio.sleep(1)
            session.tell(TrainingReport(step=1, summaries=b"\xff"))
            await asyncio.sleep(1)
            (event,) = [each for each in board.since(0) if isinstance(each, Event)]
            assert event.text.startswith("TrainingSource sees nothing more: ValueError: ")
        await monitor.close()


async def test_a_second_training_of_a_session_takes_no_numbers_of_the_first():
    async with af.Session(graph=af.Graph()) as session:
        monitor = monitor_of(session, clock)
        with monitor.viewer() as board:
            await asyncio.sleep(1)
            session.tell(TrainingReport(10, 10, 0, 1, ends_epoch=True, values={"old": 1.0}))
            session.tell(TrainingReport(15, None, 0, 2, values={"loss": 2.0}))
            await asyncio.sleep(1)
            training = newest(board, Training)
            assert (training.steps, training.history, training.values) == (None, (), {"loss": 2.0})
        await monitor.close()


async def test_a_model_without_weights_trains_while_somebody_looks():
    with af.Graph().as_default() as graph:
        model = af.Sequential([af.layers.Input([2]), af.layers.Activation("relu")])
        model.compile("sgd", "mse")
        async with af.Session(graph=graph) as session:
            session.listeners.add(lambda report: None)
            live = af.callbacks.LiveSummaries()
            history = await model.fit(Batches(), epochs=2, verbose=0, callbacks=[live], session=session)
            assert len(history.epoch) == 2


def shown(model):
    kernel = model.layers[0].kernel
    picture = af.summary.image("picture", af.reshape(kernel, [1, 2, 2, 1]))
    return [kernel, picture, af.summary.scalar("largest", af.reduce_max(kernel))]


class Batches:
    """Three batches, as nobody can tell before."""

    async def __aiter__(self):
        for _ in range(3):
            yield np.ones((4, 2), np.float32), np.ones((4, 2), np.float32)


async def test_a_fit_shows_histograms_and_pictures_while_somebody_looks():
    pytest.importorskip("PIL")
    with af.Graph().as_default() as graph:
        model = af.Sequential([af.layers.Input([2]), af.layers.Dense(2, name="dense")])
        model.compile("sgd", "mse")
        live = af.callbacks.LiveSummaries(shown, every=2)
        async with af.Session(graph=graph) as session:
            await model.fit(Batches(), epochs=2, verbose=0, callbacks=[live], session=session)
            assert not [each for each in graph.get_operations() if each.type == "histogram_summary"]
            monitor = monitor_of(session, clock)
            with monitor.viewer() as board:
                await asyncio.sleep(1)
                await model.fit(Batches(), epochs=4, verbose=0, callbacks=[live], session=session)
                await asyncio.sleep(1)
                found, training = newest(board, Summaries), newest(board, Training)
                assert [(each.tag, each.step) for each in found.histograms] == [("dense/kernel", 12)]
                assert [(each.tag, each.step) for each in found.pictures] == [("picture/image/0", 12)]
                assert sum(found.histograms[0].counts) == 4
                assert (training.step, training.epoch) == (12, 3)
                kernel = await session.run(model.layers[0].kernel)
                (history,) = [each for each in board.since(0) if isinstance(each, History)]
                assert history.series["value:largest"].values[-1] == pytest.approx(kernel.max())
                await session.run(model.layers[0].kernel.assign(np.full((2, 2), np.nan, np.float32)))
                await model.fit(
                    Batches(), epochs=2, verbose=0, callbacks=[af.callbacks.LiveSummaries()], session=session
                )
                events = [each for each in board.since(0) if isinstance(each, Event)]
                assert events[-1].text.startswith("no summaries after epoch 1: ")
                with pytest.raises(TypeError, match="a list of variables and summaries"):
                    af.callbacks.LiveSummaries(af.constant(1.0))
                wrong = af.callbacks.LiveSummaries([af.constant(1.0)])
                with pytest.raises(TypeError, match=r"variables and results of af\.summary, not <af\.Tensor"):
                    await model.fit(Batches(), verbose=0, callbacks=[wrong], session=session)
                with af.Graph().as_default():
                    other = af.callbacks.LiveSummaries([af.Variable(1.0, name="other")])
                with pytest.raises(ValueError, match="'other' belongs to another graph than the model 'sequential'"):
                    await model.fit(Batches(), verbose=0, callbacks=[other], session=session)
            await monitor.close()
