"""Directories that are cut short, damaged, forged or of a later format: each is refused, and says why."""

import asyncio
import fcntl
import os
import shutil

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.checkpoint import seal, storage
from aioflow.saved_model import WarmUpRequest, load, manifest, writing
from aioflow.saved_model.reading import is_complete, read
from aioflow.testing import Gate
from tests.support.saved_models import Line, rows


class KilledError(BaseException):
    """The process is dead: so ends whatever it would do next."""


class Process:
    """Counts the steps in which a save changes the disk, and kills it after a step, or before it renames a folder."""

    def __init__(self, monkeypatch):
        self.begin(killed_at=0)
        write, move, remove = storage.LocalStorage.write, storage.LocalStorage.move, shutil.rmtree
        monkeypatch.setattr(storage.LocalStorage, "write", lambda *args: (write(*args), self.step())[0])
        monkeypatch.setattr(storage.LocalStorage, "move", lambda *args: (self.step(), move(*args))[1])
        monkeypatch.setattr(shutil, "rmtree", lambda *args, **options: self.is_dead() or remove(*args, **options))

    def begin(self, killed_at):
        self.steps, self.killed_at = 0, killed_at

    def is_dead(self):
        return 0 < self.killed_at <= self.steps

    def step(self):
        self.steps += 1
        if self.is_dead():
            raise KilledError


@pytest.fixture
async def model(tmp_path):
    """A saved model with all that one may have."""
    (tmp_path / "words").write_text("zero one")
    path = await Line(2.0).save(
        tmp_path / "m", 1, assets={"words.txt": tmp_path / "words"}, warmup=[WarmUpRequest({"x": rows(1)})]
    )
    return tmp_path / "m" / "1" if path else None


def forged(path, **fields):
    """The manifest of a model with other fields, and the checksum that fits them."""
    file = path / manifest.MANIFEST
    found = manifest.Manifest.from_bytes("m", file.read_bytes())
    plain = {name: getattr(found, name) for name in ("created", "variables", "trainable", "files")}
    signatures = {name: signature_fields(each) for name, each in found.signatures.items()}
    warmup = [{"signature": each.signature, "inputs": each.inputs} for each in found.warmup]
    file.write_bytes(seal(manifest.FORMAT, 1, {**plain, "signatures": signatures, "warmup": warmup, **fields}))


def signature_fields(named):
    return {name: getattr(named, name) for name in ("inputs", "outputs", "method", "repeat_while")}


def all_files(path):
    return [found for found in sorted(path.rglob("*")) if found.is_file()]


async def test_a_save_that_is_killed_at_any_moment_leaves_no_model_and_the_next_one_tidies_up(tmp_path, monkeypatch):
    line, target, process = Line(3.0), tmp_path / "2", Process(monkeypatch)
    await line.save(tmp_path, 1)
    count = process.steps
    assert count > 5
    for number in range(1, count + 1):
        process.begin(killed_at=number)
        with pytest.raises(KilledError):
            await line.save(tmp_path, 2)
        assert not is_complete(target)
        assert len([*tmp_path.iterdir()]) == 2  # the first model, and the remains
        with pytest.raises(errors.NotFoundError, match="no saved model"):
            read(target)
    process.begin(killed_at=0)
    await line.save(tmp_path, 2)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["1", "2"]


async def test_a_save_leaves_those_of_other_processes_alone_and_deletes_the_remains_of_dead_ones(tmp_path):
    running, dead, strange = f".2.{16 * 'a'}.saving", f".1.{16 * 'b'}.saving", ".1.mine.saving"
    for name in (running, dead, strange):
        (tmp_path / name).mkdir()
    file = os.open(tmp_path / running, os.O_RDONLY)
    try:
        fcntl.flock(file, fcntl.LOCK_SH)
        await Line().save(tmp_path, 2)
        assert {entry.name for entry in tmp_path.iterdir()} == {running, strange, "2"}
    finally:
        os.close(file)


async def test_a_sweep_between_the_making_of_a_folder_and_its_lock_does_not_fail_the_save(tmp_path, monkeypatch):
    made = []
    make = os.makedirs

    def then_swept(folder, *arguments, **options):
        make(folder, *arguments, **options)
        if str(folder).endswith(".saving") and len(made) < 2:
            made.append(folder)
            writing.sweep(tmp_path)
            assert not os.path.exists(folder)

    monkeypatch.setattr(os, "makedirs", then_swept)
    await Line(3.0).save(tmp_path, 1)
    assert len(made) == 2
    assert is_complete(tmp_path / "1")


@pytest.mark.real
async def test_a_cancelled_save_ends_before_its_task_and_leaves_nothing(tmp_path, monkeypatch):
    gate, loop, fill = Gate(), asyncio.get_running_loop(), writing._fill

    def held(*arguments):
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result()
        fill(*arguments)

    monkeypatch.setattr(writing, "_fill", held)
    saving = asyncio.create_task(Line().save(tmp_path, 1))
    await gate.arrived()
    saving.cancel()
    await asyncio.sleep(0)
    assert not saving.done()  # its thread still has the directory
    gate.open()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert [*tmp_path.iterdir()] == []


async def test_a_directory_that_lacks_a_file_or_has_a_damaged_one_is_refused(model):
    files = all_files(model)
    assert len(files) == 9
    for file in files:
        name, whole = str(file.relative_to(model)), file.read_bytes()
        file.unlink()
        with pytest.raises(errors.DataLossError, match=file.parent.name if file.parent != model else name):
            read(model)
        for damaged in (whole[:-1], whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:]):
            file.write_bytes(damaged)
            with pytest.raises(errors.DataLossError):
                read(model)
        file.write_bytes(whole)
    assert read(model).variables["factor"] == 2.0
    (model / manifest.MANIFEST).unlink()
    with pytest.raises(errors.DataLossError, match=r"no saved_model\.json, which is written last, only assets"):
        read(model)
    with pytest.raises(errors.NotFoundError, match="no saved model"):
        read(model / "elsewhere")


async def test_a_forged_manifest_reads_no_file_elsewhere_and_builds_nothing(model, tmp_path):
    size, checksum = manifest.Manifest.from_bytes("m", (model / manifest.MANIFEST).read_bytes()).files["graph.msgpack"]
    graph = {"graph.msgpack": [size, checksum]}
    good = signature_fields(read(model).manifest.signatures["total"])
    original = (model / manifest.MANIFEST).read_bytes()
    for error, text, fields in [
        (errors.PermissionDeniedError, "no such file is read", {"files": {**graph, "assets/../../words": [8, 0]}}),
        (errors.PermissionDeniedError, "no such file is read", {"files": {**graph, "/etc/passwd": [8, 0]}}),
        (errors.PermissionDeniedError, "no such file is read", {"files": {**graph, "assets/a/../../b": [8, 0]}}),
        (errors.DataLossError, "no file 'graph.msgpack'", {"files": {}}),
        (errors.DataLossError, "no size and checksum", {"files": {"graph.msgpack": "x"}}),
        (errors.DataLossError, "instead of", {"files": {"graph.msgpack": [1 << 60, 0]}}),
        (errors.DataLossError, "different: ", {"variables": ["factor"]}),
        (errors.DataLossError, "are texts", {"variables": [7]}),
        (errors.DataLossError, "a signature or more", {"signatures": {}}),
        (errors.DataLossError, "no field 'created'", {"created": "now"}),
        (errors.DataLossError, "no field 'inputs'", {"signatures": {"f": {**good, "inputs": []}}}),
        (
            errors.DataLossError,
            "'nowhere:0', which is not in",
            {"signatures": {"f": {**good, "inputs": {"x": "nowhere:0"}}}},
        ),
        (errors.DataLossError, "method is one of", {"signatures": {"f": {**good, "method": "guess"}}}),
        (errors.DataLossError, "a bool output", {"signatures": {"f": {**good, "repeat_while": "y"}}}),
        (errors.DataLossError, "different: ", {"warmup": [{"signature": "total", "inputs": ["z"]}]}),
    ]:
        forged(model, **fields)
        async with af.Session(graph=af.Graph()) as session:
            with pytest.raises(error, match=text):
                await load(model, session)
            assert session.graph.version == 0
        (model / manifest.MANIFEST).write_bytes(original)
    (model / manifest.MANIFEST).write_bytes(seal(manifest.FORMAT, 2, {}))
    with pytest.raises(errors.UnimplementedError, match="has version 2, this aioflow reads version 1"):
        read(model)


async def test_values_of_another_shape_than_that_of_their_variables_are_refused_and_build_nothing(model, tmp_path):
    wide = af.Graph()
    with wide.as_default():
        made = {name: af.Variable(np.zeros([3], np.float32), name=name) for name in ("factor", "bias")}
        init, total = af.global_variables_initializer(), made["factor"] + made["bias"]
    async with af.Session(graph=wide) as session:
        await session.run(init)
        signature = af.saved_model.Signature({}, {"y": total})
        other = await af.saved_model.save(session, tmp_path / "wide", {"serving_default": signature})
    shutil.rmtree(model / "variables")
    shutil.copytree(f"{other}/variables", model / "variables")
    async with af.Session(graph=af.Graph()) as session:
        with pytest.raises(errors.DataLossError, match=r"is float32\[1\], and its value float32\[3\]"):
            await load(model, session)
        assert session.graph.version == 0


@pytest.mark.parametrize("name", ["variables", "warmup", "assets", "assets/words.txt", "graph.msgpack"])
async def test_a_link_in_the_place_of_a_file_or_folder_is_refused(model, tmp_path, name):
    (model / name).rename(tmp_path / "elsewhere")
    (model / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(errors.PermissionDeniedError, match="is a link"):
        read(model)


async def test_a_link_to_a_whole_model_is_followed(model, tmp_path):
    (tmp_path / "latest").symlink_to(model)
    assert read(tmp_path / "latest").variables["factor"] == 2.0
