"""Files: names of this machine and URLs, errors that name the file, and nothing half written."""

import errno
import os
import sys

import pytest

from aioflow import errors
from aioflow.files.filesystem import Files

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


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG], ids=errno.errorcode.get)
def test_a_file_for_which_there_is_no_room_exhausts_resources(tmp_path, number, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *names: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
    with pytest.raises(errors.ResourceExhaustedError, match=os.strerror(number)):
        FILES.write(tmp_path / "a", b"new")


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
        ("nowhere/a", errors.NotFoundError, "no such file"),
        (".", errors.FailedPreconditionError, "is a folder"),
        ("file/a", errors.FailedPreconditionError, "its parent is a file"),
        ("a\0b", errors.InvalidArgumentError, "null"),
    ],
)
def test_errors_name_the_file(tmp_path, name, error, says):
    (tmp_path / "file").touch()
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
    with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[storage\]"):
        FILES.read("s3://bucket/name")
    with pytest.raises(errors.NotFoundError):
        FILES.read("c://windows")  # a drive


def test_a_scheme_that_nobody_knows_is_refused():
    with pytest.raises(errors.InvalidArgumentError, match="nosuch"):
        FILES.read("nosuch://bucket/name")


# Roots


@pytest.fixture
def places(tmp_path):
    """A root, and what is beside it; names in the root that lead out of it."""
    for name in ("root/in", "rootless/out", "out", "root/deep/in"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "root" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "root" / "folder").symlink_to(tmp_path / "rootless")
    (tmp_path / "root" / "back").symlink_to(tmp_path / "root" / "deep")
    return tmp_path


@pytest.mark.parametrize("name", ["in", "deep/in", "deep/../in", "back/in", "folder/../root/in", "./in"])
def test_what_lies_below_a_root_is_read_whatever_way_leads_there(places, name):
    for files in (Files([places / "root"]), Files([places / "nowhere", f"file://{places}/root/"])):
        assert files.read(places / "root" / name).endswith(b"in")
        assert files.read(f"file://{places}/root/{name}").endswith(b"in")


@pytest.mark.parametrize(
    "name", ["out", "root/../out", "root/link", "root/folder/out", "rootless/out", "root/folder/new", "nowhere", ""]
)
def test_what_lies_elsewhere_is_not_touched_whatever_way_leads_there(places, name):
    files = Files([places / "root"])
    for path in (f"{places}/{name}", f"file://{places}/{name}", os.path.relpath(places / name)):
        uses = (files.read, files.size, files.exists, files.matching, lambda path: files.write(path, b"mine"))
        for use in uses:
            with pytest.raises(errors.PermissionDeniedError, match="may not be used"):
                use(path)
    assert (places / "out").read_bytes() == b"out"
    assert not (places / "rootless" / "new").exists()


def test_without_any_root_there_are_no_files(places):
    for path in (places / "out", "memory://files/a", "/", "."):
        with pytest.raises(errors.PermissionDeniedError):
            Files([]).exists(path)


def test_patterns_find_only_what_lies_below_a_root(places):
    files, root = Files([places / "root"]), places / "root"
    assert files.matching(root / "*") == [str(root / name) for name in ("back", "deep", "in")]
    assert files.matching(root / "*" / "*") == [str(root / name) for name in ("back/in", "deep/in")]
    assert files.matching(f"{root}/deep/../*") == [f"{root}/deep/../{name}" for name in ("back", "deep", "in")]
    for pattern in (places / "*", "/*", "*", places / "root*" / "in", places / "[r]oot" / "in", root / "*/../../*"):
        with pytest.raises(errors.PermissionDeniedError):
            files.matching(pattern)


def test_urls_lie_below_roots_that_are_urls():
    files = Files(["memory://mine"])
    files.write("memory://mine/a", b"kept")
    FILES.write("memory://mines/a", b"other")
    assert files.read("memory://mine/a") == b"kept"
    assert files.matching("memory://mine/*") == ["memory:///mine/a"]
    urls = ["mines/a", "mine/../mines/a", "mine/%2e%2e/a", "mine/x::memory://mines/a", "min*/a", "mine/*/../../mines/*"]
    for url in [*(f"memory://{url}" for url in urls), "MEMORY://mine/a", "local:///etc/passwd", "/etc/passwd"]:
        for use in (files.read, files.matching, files.exists):
            with pytest.raises(errors.PermissionDeniedError, match="may not be used"):
                use(url)
