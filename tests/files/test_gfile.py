"""Files and folders by TensorFlow's names, on the local disk and in a file system of fsspec."""

import pytest

import aioflow as af
from aioflow import errors
from aioflow.files import gfile


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    if request.param == "local":
        return str(tmp_path / "root")
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    return "memory://root"


def test_what_is_written_is_read(folder):
    gfile.makedirs(folder)
    name = gfile.join(folder, "text")
    with gfile.GFile(name, "w") as file:
        file.write("one\ntwo\nthree")
    with gfile.GFile(name) as file:
        assert (file.readline(), file.tell(), file.readlines(), file.readline()) == ("one\n", 4, ["two\n", "three"], "")
        file.seek(4)
        assert (file.read(3), file.size(), file.seekable()) == ("two", 13, True)
    assert list(gfile.GFile(name, "rb")) == [b"one\n", b"two\n", b"three"]
    told = gfile.stat(name)
    assert (told.length, told.is_directory, told.mtime_nsec > 0) == (13, False, True)


def test_folders_are_listed_walked_and_removed(folder):
    inner = gfile.join(folder, "a", "b")
    gfile.makedirs(inner)
    gfile.makedirs(inner)
    gfile.mkdir(gfile.join(folder, "c"))
    for name in (gfile.join(folder, "x1"), gfile.join(inner, "y"), gfile.join(folder, "x2")):
        with gfile.GFile(name, "w") as file:
            file.write(name)
    assert gfile.listdir(folder) == ["a", "c", "x1", "x2"]
    assert [gfile.isdir(gfile.join(folder, name)) for name in ("a", "x1", "none")] == [True, False, False]
    assert [found.rpartition("/")[2] for found in gfile.glob(gfile.join(folder, "x*"))] == ["x1", "x2"]
    entries = list(gfile.walk(folder))
    assert [(names, files) for _, names, files in entries] == [
        (["a", "c"], ["x1", "x2"]), (["b"], []), ([], ["y"]), ([], []),
    ]  # fmt: skip
    assert sorted(gfile.walk(folder, topdown=False)) == sorted(entries)
    assert next(gfile.walk(folder, topdown=False))[0] == inner
    gfile.rmtree(gfile.join(folder, "a"))
    gfile.remove(gfile.join(folder, "x1"))
    assert gfile.listdir(folder) == ["c", "x2"]


def test_copies_and_new_names_replace_files_only_if_told(folder):
    gfile.makedirs(folder)
    one, two = gfile.join(folder, "one"), gfile.join(folder, "two")
    for name in (one, two):
        with gfile.GFile(name, "wb") as file:
            file.write(name[-3:].encode())
    for change in (gfile.copy, gfile.rename):
        with pytest.raises(errors.AlreadyExistsError, match="overwrite=True"):
            change(one, two)
    assert gfile.GFile(two).read() == "two"
    gfile.copy(one, two, overwrite=True)
    assert gfile.GFile(two).read() == "one"
    gfile.rename(one, two, overwrite=True)
    assert (gfile.exists(one), gfile.GFile(two).read()) == (False, "one")
    gfile.copy(two, gfile.join(folder, "three"))
    assert gfile.listdir(folder) == ["three", "two"]


def test_an_empty_file_is_copied(folder):
    gfile.makedirs(folder)
    with gfile.GFile(gfile.join(folder, "empty"), "w") as file:
        file.write("")
    gfile.copy(gfile.join(folder, "empty"), gfile.join(folder, "copied"))
    assert gfile.stat(gfile.join(folder, "copied")).length == 0


def test_what_is_missing_or_wrong_is_named(folder):
    missing = gfile.join(folder, "missing")
    for call in (
        gfile.GFile(missing).read,
        *(lambda f=f: f(missing) for f in (gfile.stat, gfile.listdir, gfile.remove)),
    ):
        with pytest.raises(errors.NotFoundError, match="missing"):
            call()
    gfile.makedirs(folder)
    with pytest.raises(errors.AlreadyExistsError, match="exists"):
        gfile.mkdir(folder)
    with pytest.raises(errors.InvalidArgumentError, match="mode is one of"):
        gfile.GFile(missing, "x")
    seen = []
    assert list(gfile.walk(missing, onerror=seen.append)) == []
    assert isinstance(seen[0], errors.NotFoundError)


def test_the_older_names_are_the_same_functions():
    assert af.gfile.Open is af.gfile.FastGFile is gfile.GFile
    assert (af.gfile.DeleteRecursively, af.gfile.IsDirectory) == (gfile.rmtree, gfile.isdir)


def test_the_schemes_of_local_files_are_always_there():
    assert {"", "file"} <= {*gfile.get_registered_schemes()}
