"""Files: names of this machine and URLs, errors that name the file, and nothing half written."""

import os
import sys

import pytest

from aioflow import errors
from aioflow.files import Files

FILES = Files()


def test_what_was_written_is_read_and_folders_are_made(tmp_path):
    name = tmp_path / "deep" / "down" / "a.bin"
    FILES.write(name, b"one")
    FILES.write(os.fsencode(name), b"other")
    assert FILES.read(str(name)) == b"other"
    assert FILES.size(f"file://{name}") == 5
    assert os.listdir(name.parent) == ["a.bin"]


def test_a_file_keeps_its_permissions_and_its_link(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    FILES.write(link, b"new")
    assert link.is_symlink()
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"new", 0o640)


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    name = tmp_path / "a"
    name.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(errors.ResourceExhaustedError, match="No space left"):
        FILES.write(name, b"new")
    assert name.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_patterns_give_names_in_order_hidden_ones_too(tmp_path):
    for name in ("b1", "a1", "c2", ".h1"):
        (tmp_path / name).touch()
    assert FILES.matching(tmp_path / "*1") == [str(tmp_path / name) for name in (".h1", "a1", "b1")]
    assert FILES.matching(tmp_path / "[ac]?") == [str(tmp_path / name) for name in ("a1", "c2")]
    assert FILES.matching(tmp_path / "c2") == [str(tmp_path / "c2")]
    assert FILES.matching(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("nowhere/a", errors.NotFoundError, "there is no file"),
        (".", errors.FailedPreconditionError, "is a folder"),
        ("a\0b", errors.InvalidArgumentError, "null"),
    ],
)
def test_errors_name_the_file(tmp_path, name, error, says):
    with pytest.raises(error, match=says) as raised:
        FILES.read(f"{tmp_path}/{name}")
    assert str(tmp_path) in raised.value.message


def test_a_url_is_read_through_fsspec():
    FILES.write("memory://files/a.bin", b"kept")
    FILES.write("memory://files/b.bin", b"too")
    assert FILES.read("memory://files/a.bin") == b"kept"
    assert FILES.size("memory://files/a.bin") == 4
    assert FILES.exists("memory://files/b.bin")
    assert FILES.matching("memory://files/*.bin") == ["memory:///files/a.bin", "memory:///files/b.bin"]
    with pytest.raises(errors.NotFoundError, match="memory://files/none"):
        FILES.read("memory://files/none")


def test_without_fsspec_a_url_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow\[storage\]"):
        FILES.read("s3://bucket/name")
    with pytest.raises(errors.NotFoundError):
        FILES.read("c://windows")  # a drive


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="nosuch"):
        FILES.read("nosuch://bucket/name")
