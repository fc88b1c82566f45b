"""Models by name and version: what a request gets, how versions are replaced, labels and splits, bad requests."""

import asyncio
import contextlib
import fcntl
import os
import random
import shutil
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.resources.containers import VariableState, drop_shared, shared_container
from aioflow.saved_model import WarmUpRequest
from aioflow.serving import Batching, Models, ServedVersion
from aioflow.serving.version_loader import VersionLoader
from aioflow.testing import Gate
from tests.support.saved_models import GATES, Line, rows, turns


@pytest.fixture
async def models():
    async with Models(chooser=random.Random(1)) as models:
        yield models


@pytest.fixture
def gate():
    GATES["held"] = Gate()
    yield GATES["held"]
    del GATES["held"]


async def ask(models, value=1.0, **which):
    found = await models.find("line", **which).infer({"x": rows(value)})
    return float(found["y"][0, 0])


def states(models):
    return {each.version: each.state for each in models.status("line")}


class TestVersions:
    async def test_the_newest_version_is_served_and_others_by_label(self, models, tmp_path):
        for version in (1, 2, 10):
            await Line(version).save(tmp_path, version)
        (tmp_path / "11").mkdir()  # it is being written: no version yet
        (tmp_path / "notes").mkdir()
        first = await models.add("line", tmp_path, labels={"stable": 2})
        assert (first.name, first.version, first.state) == ("line", 10, "available")
        assert first.signatures["serving_default"].describe() == "(x: float32[?, 1]) -> (y: float32[?, 1])"
        assert [await ask(models), await ask(models, version=2), await ask(models, label="stable")] == [10, 2, 2]
        assert (models.names(), models.versions("line"), models.labels("line")) == (["line"], [2, 10], {"stable": 2})
        assert [(each.version, each.labels) for each in models.status("line")] == [(10, ()), (2, ("stable",))]
        assert models.ready
        for text, which in [
            ("no version 1; available: 2, 10", {"version": 1}),
            ("no label 'canary'; its labels: stable", {"label": "canary"}),
        ]:
            with pytest.raises(errors.NotFoundError, match=text):
                models.find("line", **which)
        with pytest.raises(errors.NotFoundError, match="no model 'other'; there are: line"):
            models.find("other")
        for wrong in (2.0, "2", True):
            with pytest.raises(TypeError, match="a version is a whole number, not"):
                models.find("line", wrong)
        with pytest.raises(errors.InvalidArgumentError, match="a version or a label"):
            models.find("line", 2, "stable")

    async def test_a_swap_under_load_fails_no_request_and_closes_the_old_version_after_its_last(
        self, models, tmp_path, gate
    ):
        await Line(1.0, gate="held").save(tmp_path, 1)
        old = await models.add("line", tmp_path)
        held = asyncio.create_task(ask(models, 5.0))
        await gate.arrived()
        answers = []

        async def client():
            while answers[-3:] != [2.0] * 3:
                answers.append(await ask(models))

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(client())
            await turns()
            await Line(2.0).save(tmp_path, 2)
            await models.refresh()
            assert states(models) == {2: "available", 1: "ending"}
            assert await ask(models) == 2.0
            assert not held.done()
            gate.open()
        assert set(answers) == {1.0, 2.0}
        assert await held == 5.0
        await turns(20)
        assert states(models) == {2: "available", 1: "ended"}
        with pytest.raises(errors.UnavailableError, match="version 1 of model 'line' has ended"):
            await old.infer({"x": rows(1)})

    async def test_a_held_version_is_not_closed_under_its_holder(self, models, tmp_path):
        await Line(1.0).save(tmp_path, 1)
        with (await models.add("line", tmp_path)).held() as version:
            await Line(2.0).save(tmp_path, 2)
            await models.refresh()
            await turns()
            assert (await version.infer({"x": rows(3)}))["y"].tolist() == [[3.0]]
            assert version.state == "ending"
        await turns()
        assert version.state == "ended"

    async def test_a_watcher_finds_new_versions_and_a_rollback_by_deletion(self, tmp_path):
        async with Models(poll_interval=30.0) as models, asyncio.TaskGroup() as group:
            await Line(1.0).save(tmp_path, 1)
            await models.add("line", tmp_path)
            watching = group.create_task(models.watch())
            await asyncio.sleep(45)
            await Line(2.0).save(tmp_path, 2)
            assert await ask(models) == 1.0
            await asyncio.sleep(30)
            assert await ask(models) == 2.0
            shutil.rmtree(tmp_path / "2")
            await asyncio.sleep(30)
            assert await ask(models) == 1.0
            shutil.rmtree(tmp_path / "1")
            await asyncio.sleep(30)
            assert await ask(models) == 1.0  # nothing else is there
            watching.cancel()

    async def test_a_bad_version_is_reported_once_and_the_one_before_stays(self, tmp_path, caplog):
        async with Models(poll_interval=1.0) as models, asyncio.TaskGroup() as group:
            await Line(1.0).save(tmp_path, 1)
            await models.add("line", tmp_path)
            whole = tmp_path / await Line(2.0).save(tmp_path / "elsewhere", 2)
            shutil.copytree(whole, tmp_path / "2")
            (tmp_path / "2" / "graph.msgpack").unlink()
            watching = group.create_task(models.watch())
            await asyncio.sleep(20)
            assert await ask(models) == 1.0
            (bad, _) = models.status("line")
            assert (bad.state, bad.version, type(bad.error)) == ("failed", 2, errors.DataLossError)
            assert len(caplog.records) == 1
            assert "has no file 'graph.msgpack'" in caplog.text
            with pytest.raises(errors.DataLossError, match="has no file"):
                await models.refresh("line")
            shutil.copy(whole / "graph.msgpack", tmp_path / "2")
            await asyncio.sleep(64)  # it is tried ever more rarely
            assert await ask(models) == 2.0
            assert states(models) == {2: "available", 1: "ended"}
            watching.cancel()

    async def test_versions_share_the_variables_of_a_named_container_beside_each_other_and_after_each_other(
        self, models, tmp_path
    ):
        names = ["served-factor"]
        try:
            for version, factor in ((1, 2.0), (2, 5.0)):
                await Line(factor, container=names[0]).save(tmp_path, version)
                drop_shared(names)
            await models.add("line", tmp_path, labels={"old": 1, "new": 2})
            factor = shared_container(names[0]).lookup(VariableState, "factor")
            first = float(factor.read()[0])  # of the version that was loaded first
            assert [await ask(models, label="old"), await ask(models, label="new")] == [first, first]
            factor.assign(np.full([1], 7.0, np.float32))
            assert [await ask(models, label="old"), await ask(models, label="new")] == [7.0, 7.0]
            await Line(9.0).save(tmp_path, 3)  # in no container: its own
            await models.refresh()
            assert [await ask(models), await ask(models, label="old")] == [9.0, 7.0]
            for label in ("old", "new"):
                await models.set_label("line", label, None)
            await turns()
            assert models.versions("line") == [3]
            await models.set_label("line", "old", 1)
            assert await ask(models, label="old") == 7.0  # the container has outlived its versions
        finally:
            drop_shared(names)

    async def test_what_killed_saves_left_is_deleted_when_a_model_is_opened_or_looked_for(self, models, tmp_path):
        dead, running = (tmp_path / f".2.{16 * letter}.saving" for letter in "ab")
        await Line(1.0).save(tmp_path, 1)
        for folder in (dead, running):
            folder.mkdir()
        file = os.open(running, os.O_RDONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_SH)
            await models.add("line", tmp_path)
            assert {entry.name for entry in tmp_path.iterdir()} == {"1", running.name}
        finally:
            os.close(file)
        await models.refresh()
        assert [entry.name for entry in tmp_path.iterdir()] == ["1"]

    async def test_warm_up_requests_run_before_a_version_is_available(self, models, tmp_path, gate):
        await Line(1.0, gate="held").save(
            tmp_path, 1, warmup=[WarmUpRequest({"x": rows(1, 2)}), WarmUpRequest({"x": rows(1)}, "total")]
        )
        adding = asyncio.create_task(models.add("line", tmp_path))
        await gate.arrived()
        assert states(models) == {1: "loading"}
        assert not models.ready
        with pytest.raises(errors.UnavailableError, match="no version that is available yet"):
            models.find("line")
        gate.open()
        await adding
        assert gate.entered == 2
        assert models.ready

    async def test_a_model_that_cannot_be_loaded_is_not_added(self, models, tmp_path):
        with pytest.raises(errors.NotFoundError, match=r"does not have a version of model 'line'.*there are: none"):
            await models.add("line", tmp_path)
        (tmp_path / "1").mkdir()
        with pytest.raises(errors.DataLossError, match=r"1' was written only in part"):
            await models.add("line", tmp_path)
        await Line(2.0).save(tmp_path, 2)
        with pytest.raises(errors.NotFoundError, match=r"does not have the version 7 of .*there are: 2"):
            await models.add("line", tmp_path, labels={"stable": 7})
        assert models.names() == []
        with pytest.raises(errors.NotFoundError, match=r"2' is a version itself: name the folder above it"):
            await models.add("line", tmp_path / "2")
        with pytest.raises(TypeError, match="batching must be Batching, not 8"):
            await models.add("line", tmp_path, batching=8)
        await models.add("line", tmp_path)
        with pytest.raises(errors.AlreadyExistsError, match="there is a model 'line' already"):
            await models.add("line", tmp_path)

    async def test_closing_refuses_requests_and_waits_for_those_that_run(self, tmp_path, gate):
        models = Models()
        await Line(1.0, gate="held").save(tmp_path, 1)
        await models.add("line", tmp_path)
        request = asyncio.create_task(ask(models))
        await gate.arrived()
        closing = asyncio.create_task(models.close())
        await turns()
        assert not closing.done()
        assert not models.ready
        with pytest.raises(errors.UnavailableError, match="shutting down"):
            models.find("line")
        gate.open()
        await closing
        assert await request == 1.0
        await models.close()

    async def test_a_removed_model_is_gone_and_its_name_is_free(self, models, tmp_path):
        await Line(1.0).save(tmp_path, 1)
        version = await models.add("line", tmp_path)
        await models.remove("line")
        assert (models.names(), version.state) == ([], "ended")
        await models.add("line", tmp_path)

    async def test_a_model_that_is_removed_or_relabelled_at_a_bad_moment_is_closed_all_the_same(
        self, models, tmp_path, monkeypatch
    ):
        for version in (1, 2):
            await Line(version).save(tmp_path, version)
        version = await models.add("line", tmp_path)
        model, loading, load = models._models["line"], Gate(), VersionLoader.load

        async def load_slowly(loader, number):
            await loading.wait()
            return await load(loader, number)

        monkeypatch.setattr(VersionLoader, "load", load_slowly)
        labelling = asyncio.create_task(models.set_label("line", "stable", 1))
        await loading.arrived()
        removing = asyncio.create_task(models.remove("line"))
        late = asyncio.create_task(model.set_label("late", 1))
        await turns()
        removing.cancel()
        loading.open()
        await labelling
        await models.close()
        assert [each.state for each in model.status()] == ["ended", "ended"]
        assert version.state == "ended"
        with pytest.raises(errors.UnavailableError, match="served no longer"):
            await late


class TestLabelsAndSplits:
    async def test_a_label_loads_its_version_and_moving_it_ends_the_old_one(self, models, tmp_path):
        for version in (1, 2, 3):
            await Line(version).save(tmp_path, version)
        await models.add("line", tmp_path)
        assert models.versions("line") == [3]
        await models.set_label("line", "stable", 1)
        assert [await ask(models, label="stable"), await ask(models)] == [1, 3]
        await models.set_label("line", "stable", 2)
        await turns()
        assert states(models) == {3: "available", 2: "available", 1: "ended"}
        with pytest.raises(errors.NotFoundError, match="the version 9"):
            await models.set_label("line", "stable", 9)
        assert await ask(models, label="stable") == 2
        await models.set_label("line", "stable", None)
        await turns()
        assert models.versions("line") == [3]
        with pytest.raises(errors.NotFoundError, match="no label 'stable'; its labels: none"):
            await models.set_label("line", "stable", None)

    @pytest.mark.parametrize("version", ["1", 1.0, True, [1]])
    async def test_a_label_names_a_number(self, models, tmp_path, version):
        await Line(1.0).save(tmp_path, 1)
        await models.add("line", tmp_path)
        for wrong in ({"stable": version}, {3: 1}, {"": 1}, ["stable"]):
            with pytest.raises(TypeError, match="labels are numbers of versions by label"):
                await models.add("other", tmp_path, labels=wrong)
        with pytest.raises(TypeError, match="labels are numbers of versions by label"):
            await models.set_label("line", "stable", version)
        for wrong in (["stable"], {"stable": "half"}):
            with pytest.raises(TypeError, match="shares of a split are numbers by label"):
                models.split("line", wrong)
        assert (models.names(), states(models), models.labels("line")) == (["line"], {1: "available"}, {})

    async def test_a_split_divides_the_requests_that_name_no_version(self, models, tmp_path):
        for version in (1, 2):
            await Line(version).save(tmp_path, version)
        await models.add("line", tmp_path, labels={"stable": 1, "canary": 2})
        models.split("line", {"stable": 0.9, "canary": 0.1})
        drawn = Counter([models.find("line").version for _ in range(2000)])
        assert 130 < drawn[2] < 270
        assert models.find("line", version=2).version == 2
        with pytest.raises(errors.FailedPreconditionError, match="uses the label 'canary'"):
            await models.set_label("line", "canary", None)
        with pytest.raises(errors.NotFoundError, match="no label 'beta'"):
            models.split("line", {"beta": 1.0})
        for shares in ({"stable": 0.0}, {"stable": -1.0, "canary": 2.0}, {"stable": float("nan")}):
            with pytest.raises(ValueError, match="at least 0, and not all 0"):
                models.split("line", shares)
        models.split("line", None)
        assert models.find("line").version == 2


class TestRequests:
    async def test_requests_share_runs_only_where_all_tensors_have_rows(self, models, tmp_path):
        await Line(2.0).save(tmp_path, 1)
        version = await models.add("line", tmp_path, batching=Batching(max_rows=8))
        results = await asyncio.gather(*[version.infer({"x": rows(value)}) for value in range(8)])
        assert [float(result["y"][0, 0]) for result in results] == [2.0 * value for value in range(8)]
        default, total = version._runners["serving_default"], version._runners["total"]
        assert default._batcher.statistics.calls == 8
        assert sum(default._batcher.statistics.batches.values()) < 8
        assert (default.batches, total.batches) == (True, False)
        assert await version.infer({"x": rows(1, 2)}, "total", ["total"]) == {"total": 6.0}
        alone = await models.add("alone", tmp_path, batching=None)
        assert not alone._runners["serving_default"].batches
        assert (await alone.infer({"x": rows(1)}))["y"].tolist() == [[2.0]]

    async def test_a_bad_request_says_what_was_expected_and_harms_no_other(self, models, tmp_path):
        await Line(2.0).save(tmp_path, 1)
        version = await models.add("line", tmp_path)
        good = {"x": rows(1)}
        for text, arguments in [
            ("no signature 'guess'; it has serving_default, total, grow", (good, "guess")),
            (r"lacks x; it is \(x: float32\[\?, 1\]\)", ({},)),
            ("has no input 'z'", ({**good, "z": rows(1)},)),
            ("has no output 'z'; it has y", (good, "serving_default", ["z"])),
            ("asked for no output", (good, "serving_default", [])),
            (r"expects float32\[\?, 1\] for 'x', and was given float64\[1, 1\]", ({"x": np.ones((1, 1))},)),
            (r"was given float32\[1, 2\]", ({"x": np.ones((1, 2), np.float32)},)),
            (r"was given float32\[\]", ({"x": np.float32(1)},)),
            ("expects float32.* for 'x': ", ({"x": [["text"]]},)),
            ("expects float32.* for 'x': ", ({"x": [[1.0], [1.0, 2.0]]},)),
            (r"expects a value by name for each input, as \{'x': ...\}, not \[1.0\]", ([1.0],)),
            (r"expects a list of the names of outputs, as \['y'\], not 'y'", (good, "serving_default", "y")),
            ("has no priority 1, only 0 to 0", (good, "serving_default", None, 1)),
            ("has no priority 0.5, only 0 to 0", (good, "serving_default", None, 0.5)),
            ("has no priority 'high', only 0 to 0", (good, "serving_default", None, "high")),
        ]:
            with pytest.raises(errors.InvalidArgumentError, match=text):
                await version.infer(*arguments)
        assert (await version.infer({"x": [[3]]}, outputs=["y", "y"]))["y"].tolist() == [[6.0]]

    async def test_rows_of_several_inputs_are_as_many(self, models, tmp_path):
        graph = af.Graph()
        with graph.as_default():
            a, b = (af.placeholder(af.float32, [None], name=name) for name in "ab")
            y = a + b
        signature = af.saved_model.Signature({"a": a, "b": b}, {"y": y})
        async with af.Session(graph=graph) as session:
            await af.saved_model.save(session, tmp_path, {"serving_default": signature}, version=1)
        version = await models.add("sum", tmp_path)
        with pytest.raises(
            errors.InvalidArgumentError, match="needs as many rows of each input, and was given 2 of 'a', 1"
        ):
            await version.infer({"a": np.ones(2, np.float32), "b": np.ones(1, np.float32)})

    async def test_a_full_queue_refuses_at_once(self, models, tmp_path, gate):
        await Line(1.0, gate="held").save(tmp_path, 1)
        version = await models.add("line", tmp_path, batching=Batching(max_rows=1, max_waiting=2))
        tasks = [asyncio.create_task(version.infer({"x": rows(1)})) for _ in range(5)]
        await gate.arrived(2)
        with pytest.raises(errors.ResourceExhaustedError, match="rows wait"):
            await version.infer({"x": rows(1, 2)})
        with pytest.raises(errors.InvalidArgumentError, match="takes 2 rows at most, max_waiting, and was given 3"):
            await version.infer({"x": rows(1, 2, 3)})  # there is never room for it
        gate.open()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert {type(result) for result in results} <= {dict, errors.ResourceExhaustedError}

    def test_a_version_has_room_as_long_as_one_of_its_queues_has(self):
        full, free = (SimpleNamespace(signature=None, has_room=room) for room in (False, True))
        ServedVersion("line", 1, {"a": full, "b": free}).check_room()
        with pytest.raises(errors.ResourceExhaustedError, match="as many rows wait for model 'line' as may"):
            ServedVersion("line", 1, {"a": full}).check_room()

    async def test_a_stream_yields_iterations_which_share_runs_and_ends_with_its_reader(self, models, tmp_path):
        await Line(2.0).save(tmp_path, 1)
        version = await models.add("line", tmp_path)

        async def grown(value):
            return [float(each["x"][0, 0]) async for each in version.stream({"x": rows(value)}, "grow", ["x"])]

        assert await asyncio.gather(grown(1), grown(3)) == [[2.0, 4.0, 8.0], [6.0, 12.0]]
        async with contextlib.aclosing(version.stream({"x": rows(1)}, "grow")) as values:
            async for each in values:
                assert sorted(each) == ["more", "x"]
                break
        await models.remove("line")  # nothing holds the version any more
        with pytest.raises(errors.InvalidArgumentError, match="no repeat_while"):
            await (await models.add("line", tmp_path)).stream({"x": rows(1)}).__anext__()

    def test_limits_that_make_no_sense_are_refused(self):
        for arguments in ({"max_rows": 0}, {"max_delay": -1.0}, {"buckets": [0]}):
            with pytest.raises(ValueError, match=r"must|at least"):
                Batching(**arguments)
        for arguments in ({"max_rows": "8"}, {"max_delay": None}, {"buckets": 8}):
            with pytest.raises(TypeError, match=rf"{next(iter(arguments))} (is|must be) a"):
                Batching(**arguments)
        with pytest.raises(ValueError, match="must be positive"):
            Models(poll_interval=0)
