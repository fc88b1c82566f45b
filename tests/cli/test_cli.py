"""The command line."""

import json
import os
import subprocess
import sys

import pytest

from aioflow import cli, errors
from aioflow.graph.op import REGISTRY


def test_ops_are_listed_as_json(capsys):
    assert cli.main(["ops", "--json"]) == 0
    found = {fact["name"]: fact for fact in json.loads(capsys.readouterr().out)}
    assert list(found) == sorted(REGISTRY)
    assert found["matmul"] == {"name": "matmul", "devices": ["CPU", "GPU"], "gradient": True, "waits": False}
    assert found["py_func"]["waits"] is True
    assert found["py_func"]["devices"] == ["CPU"]
    assert found["argmax"]["gradient"] == REGISTRY["argmax"].gradient_reason


def test_ops_are_listed_as_a_table(capsys):
    assert cli.main(["ops"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["op", "devices", "waits", "gradient"]
    assert [row.split()[0] for row in rows] == sorted(REGISTRY)
    (matmul,) = (row for row in rows if row.startswith("matmul "))
    assert matmul.split() == ["matmul", "CPU", "GPU", "no", "yes"]
    assert all(row == row.rstrip() for row in rows)


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["ops", "--nonsense"]])
def test_what_cannot_be_understood_ends_with_2_and_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert "usage: aioflow" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"), [(["--version"], "aioflow "), (["--help"], "ops"), (["ops", "--help"], "--json")]
)
def test_help_and_version_end_with_0(arguments, text, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 0
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("raised", "status", "text"),
    [
        (KeyboardInterrupt(), 130, ""),
        (errors.UnavailableError("nobody answers"), 1, "aioflow: nobody answers\n"),
        (FileNotFoundError(2, "no such file", "x"), 1, "aioflow: [Errno 2] no such file: 'x'\n"),
    ],
)
def test_a_command_that_fails_tells_by_its_status(raised, status, text, monkeypatch, capsys):
    def fail(parser):
        """Fail."""

        def run(options):
            raise raised

        return run

    monkeypatch.setattr(cli, "COMMANDS", (fail,))
    assert cli.main(["fail"]) == status
    assert capsys.readouterr().err == text


def test_every_command_says_what_it_does():
    assert all(command.__doc__ for command in cli.COMMANDS)


@pytest.mark.slow
def test_it_runs_as_a_module():
    run = subprocess.run([sys.executable, "-m", "aioflow", "ops", "--json"], capture_output=True, check=True, text=True)
    assert {"matmul", "py_func"} <= {fact["name"] for fact in json.loads(run.stdout)}
    assert run.stderr == ""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="a closed pipe is another error there")
def test_it_is_silent_when_nobody_reads_on():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as pipe:
        run = subprocess.run([sys.executable, "-m", "aioflow", "ops"], stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (run.returncode, run.stderr) == (1, b"")
