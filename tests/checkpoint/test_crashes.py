"""Whatever is cut short, whenever: every checkpoint that is there is whole, and none that was there is lost."""

import contextlib
import errno
import itertools
import os
import random

import numpy as np
import pytest

from aioflow import errors
from aioflow.checkpoint import (
    Checkpoint,
    Draft,
    Piece,
    delete_checkpoint,
    latest_checkpoint,
    list_checkpoints,
    storage,
    sweep,
    write_pointer,
    writing,
)
from tests.support.disks import Disk, PowerCut
from tests.support.scale import amount, some

HERE = "/disk/runs/ckpt"
SEED = 0 if "CI" in os.environ else random.randrange(1 << 32)
WORLDS = amount(2, 4, "AIOFLOW_WORLDS")
"""So many ways are tried in which things may be cut short before one operation; in the first only the process dies."""


def value(state):
    return np.arange(state, state + 40.0).reshape(8, 5)


def save(name, state, parts=2):
    """A checkpoint of that state, in two shards by two drafts, and the pointer to it."""
    path, token = f"{HERE}/{name}", f"t{state}"
    whole = value(state)
    cuts = np.linspace(0, 8, parts + 1).astype(int)
    try:
        records = [
            Draft(path, token).write_shard(
                number, parts, {"w": Piece(whole[a:b], (8, 5), (a, 0)), f"s{number}": np.float64(state)}
            )
            for number, (a, b) in enumerate(itertools.pairwise(cuts))
        ]
        Draft(path, token).commit(records, {"state": state}, float(state))
    except errors.OpError:
        Draft(path, token).discard()
        raise
    write_pointer(HERE, [path])


def states():
    """The state of each checkpoint that is there, by name; each is whole, and is what it says it is."""
    found = {}
    for checkpoint in list_checkpoints(HERE):
        checkpoint.verify()
        state = checkpoint.facts["state"]
        assert np.array_equal(checkpoint.read("w"), value(state))
        assert {float(checkpoint.read(name)) for name in checkpoint.tensors if name != "w"} == {state}
        found[checkpoint.path.rpartition("/")[2]] = state
    return found


def delete(name):
    delete_checkpoint(f"{HERE}/{name}")


# What is done, on what is there before, and what may be there after: before it is done, and when it is.
PROGRAMS = {
    "a first one": (lambda: None, lambda: save("c1", 1), [{}, {"c1": 1}]),
    "another": (lambda: save("c1", 1), lambda: save("c2", 2), [{"c1": 1}, {"c1": 1, "c2": 2}]),
    "in its place": (lambda: save("c1", 1), lambda: save("c1", 2), [{"c1": 1}, {"c1": 2}]),
    "again": (lambda: (save("c1", 1, 3), save("c1", 2, 3)), lambda: save("c1", 3, 1), [{"c1": 2}, {"c1": 3}]),
    "deleting": (lambda: (save("c1", 1), save("c2", 2)), lambda: delete("c1"), [{"c1": 1, "c2": 2}, {"c2": 2}]),
    "deleting beside others' files": (
        lambda: (save("c1", 1), storage.LocalStorage(HERE).write("c1/mine", [memoryview(b"1")]), save("c2", 2)),
        lambda: delete("c1"),
        [{"c1": 1, "c2": 2}, {"c2": 2}],
    ),
}


@pytest.fixture(params=["past the cache", "through the cache"])
def disk(monkeypatch, request):
    """Puts a disk in the place of the machine's, of which all files, or none, are so large that they pass the cache."""
    if request.param == "past the cache":
        monkeypatch.setattr(writing, "SPAN", 256)
        monkeypatch.setattr(writing, "BLOCK", 256)

    def put(disk):
        monkeypatch.setattr(storage, "os", disk)
        monkeypatch.setattr(writing, "os", disk)
        return disk

    return put


@pytest.fixture(params=PROGRAMS)
def program(request):
    return PROGRAMS[request.param]


def steps(disk, program):
    """How many operations change something when the program runs undisturbed."""
    before, act, _ = program
    there = disk(Disk())
    before()
    begin = there.done
    act()
    return there.done - begin


def prepared(disk, program):
    """A disk on which all that the program needs was synced."""
    there = disk(Disk())
    program[0]()
    return disk(there.after_the_process_died())


@pytest.mark.parametrize("world", range(WORLDS))
def test_everything_may_end_before_any_operation(disk, program, world):
    for step in some(range(steps(disk, program) + 1), 4):
        there = prepared(disk, program)
        there.cut_at = step
        try:
            program[1]()
            done = True
        except PowerCut:
            done = False
        dice = random.Random(f"{SEED} {world} {step}")
        after = disk(there.after_a_cut(dice) if world else there.after_the_process_died())
        with told(f"{SEED=} {world=} {step=}"):
            check(after, program[2], done)


@contextlib.contextmanager
def told(what):
    """Says of what fails inside what it was."""
    try:
        yield
    except Exception as error:
        error.add_note(what)
        raise


def check(disk, allowed, done):
    """What is there is what may be there, whole; what is left over can be swept away; and saving goes on."""
    found = states()
    assert found == allowed[-1] if done else found in allowed
    if not disk.path.isdir(HERE):
        return
    sweep(HERE)
    save("next", 9, 1)
    assert states() == {**found, "next": 9}
    assert latest_checkpoint(HERE) == f"{HERE}/next"
    assert strays(disk) == set()


def strays(disk):
    """What lies there, and is no part of a checkpoint that is whole. Beside files of others shards may be left."""
    found = set()
    for name in disk.listdir(HERE):
        if name == "checkpoint":
            continue
        if not disk.path.isdir(f"{HERE}/{name}") or name.startswith("."):
            found.add(name)
            continue
        there = set(disk.listdir(f"{HERE}/{name}"))
        if "mine" in there:
            continue
        if "manifest.json" in there:
            tensors = Checkpoint.open(f"{HERE}/{name}").tensors.values()
            there -= {"manifest.json", "model.safetensors.index.json"} | {f for t in tensors for f, _ in t.pieces}
        found |= {f"{name}/{file}" for file in there}
    return found


@pytest.mark.parametrize(
    ("fault", "for_ever", "error"),
    [
        (errno.ENOSPC, False, errors.ResourceExhaustedError),
        (errno.EACCES, True, errors.PermissionDeniedError),
    ],
    ids=["the disk is full for a moment", "writing is refused from then on"],
)
def test_any_operation_may_fail(disk, program, fault, for_ever, error):
    for step in some(range(1, steps(disk, program) + 1), 4):
        there = prepared(disk, program)
        there.fail_at, there.fault, there.for_ever = step, fault, for_ever
        try:
            program[1]()
            done = True
        except error:
            done = False
        there.fail_at = None
        with told(f"{step=}"):
            check(there, program[2], done)


def test_another_task_may_die_while_it_writes(disk):
    there = disk(Disk())
    save("c1", 1)
    there.cut_at = there.done + 4
    with pytest.raises(PowerCut):
        Draft(f"{HERE}/c2", "t2").write_shard(1, 2, {"w": np.zeros(3)})
    disk(there.after_the_process_died())
    record = Draft(f"{HERE}/c2", "t2").write_shard(0, 2, {"v": np.zeros(3)})
    with pytest.raises(errors.DataLossError, match="each of its shards once"):
        Draft(f"{HERE}/c2", "t2").commit([record], {})
    assert states() == {"c1": 1}
    sweep(HERE, live=["t2"])
    Draft(f"{HERE}/c2", "t2").commit(
        [record, Draft(f"{HERE}/c2", "t2").write_shard(1, 2, {"w": value(2), "s": np.float64(2)})], {"state": 2}
    )
    Checkpoint.open(f"{HERE}/c2").verify()
