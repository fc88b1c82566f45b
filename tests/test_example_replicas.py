"""The program that trains by replicas, of which one is killed: what it says of that, and what it has learnt."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "examples"))

import replica_training  # noqa: E402
import replicas  # noqa: E402

EPOCHS = 12
WORKERS = 3
LEARNT = 0.85
"""What so few epochs come to at least; the whole is to come to 0.95."""


def run(*options):
    """The lines of a run, as a user sees them, with warnings as errors."""
    command = [
        sys.executable,
        "-W",
        "error",
        "examples/replicas.py",
        "--workers",
        WORKERS,
        "--epochs",
        EPOCHS,
        *options,
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT, env=environment
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    found = re.fullmatch(r"test accuracy ([01]\.\d{3})", last)
    assert found is not None, done.stdout
    assert float(found[1]) >= LEARNT, done.stdout
    return lines


def of(lines, name, pattern):
    """What the process said that fits."""
    return [found for line in lines if (found := re.fullmatch(f"{name}: {pattern}", line))]


STEPS = r"(\d+) steps, of [\d.]+ ms, the longest of [\d.]+ s"


def killed(lines, name):
    """The step at which it was killed."""
    (found,) = [
        match
        for line in lines
        if (match := re.fullmatch(rf"{name} is killed at step (\d+), and another is started in its place", line))
    ]
    return int(found[1])


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sync", "backup"])
def test_replicas_in_step_go_on_without_the_one_that_is_killed_and_take_in_who_comes_in_its_place(mode):
    lines = run("--mode", mode, "--kill-one")
    step = killed(lines, "worker 2")
    begun = [int(found[1]) for found in of(lines, "worker 2", r"trains from step (\d+) on")]
    assert begun[0] == 0
    assert all(each >= step for each in begun[1:])
    (first,) = of(lines, "worker 0", STEPS)
    (other,) = of(lines, "worker 1", STEPS)
    assert not [line for line in lines if "recovered" in line]
    drops = of(lines, "worker 0", r"dropped of worker (\d), (late|lost): (\d+) gradients, (\d+) examples")
    if mode == "sync":
        steps = EPOCHS * 45 // WORKERS
        assert (int(first[1]), int(other[1])) == (steps, steps)
        assert {(found[1], found[2], found[3]) for found in drops} <= {("2", "lost", "1")}
    else:
        assert {found[2] for found in drops} >= {"late"}


@pytest.mark.long
def test_free_replicas_go_on_without_the_one_that_is_killed_and_none_is_staler_than_it_may_be():
    lines = run("--mode", "async", "--kill-one")
    killed(lines, "worker 2")
    for worker in range(2):
        (found,) = of(lines, f"worker {worker}", rf"{STEPS}; staleness [\d.]+, at most (\d+)")
        assert int(found[2]) <= replica_training.MAX_STALENESS


@pytest.mark.long
def test_a_ring_goes_on_from_the_last_checkpoint_when_another_worker_has_come_in_place_of_the_one_that_is_killed():
    lines = run("--mode", "allreduce", "--kill-one")
    step = killed(lines, "worker 2")
    (found,) = [line for line in lines if line.startswith("recovered")]
    restored, lost = re.search(r"restored from \S+/model\.ckpt-(\d+); lost: (\d+) steps", found).groups()
    assert int(restored) + int(lost) >= step
    assert int(lost) <= 2 * replica_training.CHECKPOINT_STEPS


@pytest.mark.long
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_of_a_parameter_server_that_is_killed_all_comes_back_in_step_and_else_what_was_lost(mode):
    lines = run("--mode", mode, "--kill-ps")
    killed(lines, "ps 1")
    (found,) = [line for line in lines if line.startswith("recovered")]
    assert f"{5 if mode == 'sync' else 2} variables restored" in found
    assert len(of(lines, "worker [12]", "recovered .*")) == 2


@pytest.mark.long
@pytest.mark.real
async def test_a_task_that_fails_is_named_and_the_others_end(monkeypatch):
    nowhere = {job: [f"203.0.113.1:{port}", f"203.0.113.2:{port}"] for job, port in (("ps", 7000), ("worker", 7001))}
    monkeypatch.setattr(replicas, "free_addresses", lambda sizes: nowhere)
    with pytest.raises(SystemExit, match=r"(ps|worker) [01] failed"):
        await replicas.launch(replicas.parse(["--workers", "2"]))
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "1"], "--workers must be at least 2"),
        (["--epochs", "0"], "--epochs must be at least 1"),
        (["--mode", "allreduce", "--kill-ps"], "there are no parameter servers"),
    ],
)
def test_what_cannot_be_is_refused(options, said, capsys):
    with pytest.raises(SystemExit):
        replicas.parse(options)
    assert said in capsys.readouterr().err
