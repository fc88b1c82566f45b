"""The models and limits of `aioflow serve`: those of its options, and those of a file."""

import argparse

import pytest

from aioflow import errors
from aioflow.cli.serve import serve
from aioflow.cli.serve_config import ModelConfig, read_config
from aioflow.serving.batching import Batching
from aioflow.serving.limits import Limits

WHOLE = """
[limits]
client_rate = 50

[models.digits]
directory = "digits"
labels = {stable = 3, canary = 4}
split = {stable = 0.9, canary = 0.1}
batching = {max_rows = 32, buckets = [16, 32]}

[models.plain]
directory = "/there/plain"
"""


def options(*arguments):
    parser = argparse.ArgumentParser()
    serve(parser)
    return parser.parse_args(arguments)


def test_what_a_file_does_not_say_comes_from_the_options(tmp_path):
    (tmp_path / "models.toml").write_text(WHOLE)
    given = ["--model", "other=models/other", "--label", "digits:old=2", "--max-rows", "16", "--max-requests", "7"]
    found = read_config(options(*given, "--config", str(tmp_path / "models.toml")))
    assert found.limits == Limits(requests=7, client_rate=50)
    assert found.models == [
        ModelConfig("other", "models/other", {}, {}, Batching(max_rows=16)),
        ModelConfig(
            "digits", str(tmp_path / "digits"), {"stable": 3, "canary": 4, "old": 2}, {"stable": 0.9, "canary": 0.1},
            Batching(max_rows=32, buckets=[16, 32]),
        ),
        ModelConfig("plain", "/there/plain", {}, {}, Batching(max_rows=16)),
    ]  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = [", "it is no TOML"),
        ("a = 1", "the file has no 'a'; it may have limits, models"),
        ("models = 1", "models must be a table, not 1"),
        ("models.a = 1", "models.a must be a table, not 1"),
        ("[models.a]", r"\[models.a\] must have a name .* and a directory of text, not None"),
        ('[models."a/b"]\ndirectory = "x"', "a name without"),
        ('[models.a]\ndirectory = "x"\nrows = 1', "models.a has no 'rows'; it may have directory, labels"),
        ('[models.a]\ndirectory = "x"\nlabels = {s = 1.5}', r"labels of \[models.a\] must be numbers"),
        ('[models.a]\ndirectory = "x"\nsplit = {s = 1}', r"the split of \[models.a\] is among its labels, \[\], and"),
        ('[models.a]\ndirectory = "x"\nbatching = {max_rows = 0}', r"\[models.a.batching\] max_rows is 0"),
        ('[models.a]\ndirectory = "x"\nbatching = {most = 0}', "models.a.batching has no 'most'"),
        ('[models.a]\ndirectory = "x"\nbatching = {buckets = [1, "b"]}', "buckets are sizes of at least 1"),
        (
            '[models.a]\ndirectory = "x"\nbatching = {isolate_errors = "no"}',
            "isolate_errors is True or False, not 'no'",
        ),
        ('[models.a]\ndirectory = "x"\nlabels = {s = 1}\nsplit = {s = -1}', r"\[models.a\] shares of a split are at"),
        ("[limits]\nbody = 1.5", r"\[limits\] Limits\(body=\) must be a whole number, not 1.5"),
        ("[limits]\nbody = 0", r"\[limits\] Limits\(body=\) must be a number above 0"),
        ("", "there is nothing to serve"),
        ('[models.b]\ndirectory = "x"', "a model is named twice: b, b"),
    ],
)
def test_a_wrong_file_is_refused_by_name(text, problem, tmp_path):
    (tmp_path / "models.toml").write_text(text)
    models = ["--model", "b=x"] if "twice" in problem else []
    with pytest.raises(errors.InvalidArgumentError, match=problem):
        read_config(options(*models, "--config", str(tmp_path / "models.toml")))


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(errors.NotFoundError, match=r"none\.toml cannot be read: No such file"):
        read_config(options("--config", str(tmp_path / "none.toml")))
