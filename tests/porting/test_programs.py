"""Classic programs of TensorFlow 1: each is ported by `aioflow port`, runs, and learns."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from aioflow import cli

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
SHORT = ("mnist_softmax", "tfrecord_pipeline")
NAMES = sorted(path.stem for path in PROGRAMS.glob("*.py"))
ALONE = [name for name in NAMES if name != "distributed_mnist"]


def ported(name, tmp_path):
    changed = tmp_path / f"{name}.py"
    assert cli.main(["port", str(PROGRAMS / f"{name}.py"), "-o", str(changed)]) == 0
    return changed


def start(program, *arguments):
    command = [sys.executable, str(program), *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def learned(process):
    """Whether a program that ends well says at its end that it has learned."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    measure, before, after = re.search(r"(loss|accuracy|reward) (\S+) -> (\S+)\s*$", out).groups()
    return float(after) < 0.7 * float(before) if measure == "loss" else float(after) > max(0.7, float(before))


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.whole
@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in SHORT else pytest.mark.long) for n in ALONE])
def test_a_classic_program_is_ported_runs_and_learns(name, tmp_path):
    assert learned(start(ported(name, tmp_path)))


@pytest.mark.slow
@pytest.mark.real
@pytest.mark.long
def test_replicas_train_together_after_the_port(tmp_path):
    program = ported("distributed_mnist", tmp_path)
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for each in (one, two, three):
            each.bind(("localhost", 0))
        ps, *workers = [f"localhost:{each.getsockname()[1]}" for each in (one, two, three)]
    hosts = ["--ps_hosts", ps, "--worker_hosts", ",".join(workers)]
    server = start(program, *hosts, "--job_name", "ps")
    replicas = [start(program, *hosts, "--task_index", number) for number in range(2)]
    try:
        assert {learned(replica) for replica in replicas} == {True}
    finally:
        for process in (server, *replicas):
            process.kill()
            process.communicate()
