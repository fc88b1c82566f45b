"""What a large file is written by: past the cache where that can be done, whole in any case."""

import errno
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from aioflow import errors
from aioflow.checkpoint import storage, writing

BLOCK, SPAN = 4096, 4 * 4096
ODD = [0, 1, SPAN - 1, SPAN, SPAN + 1, 7 * SPAN // 2, *range(60), *[1] * 900]


class Passing:
    """The module `os`, of which all file systems let writes pass the cache, as far as `refuses` and `short` let them.

    Attributes:
        passed: the places of what was written so.
    """

    O_DIRECT = 0

    def __init__(self, refuses="", fault=errno.EINVAL, short=BLOCK):
        self.refuses, self.fault, self.short = refuses, fault, short
        self.passed = []

    def __getattr__(self, name):
        return getattr(os, name)

    def _may(self, what):
        if self.refuses == what:
            raise OSError(self.fault, os.strerror(self.fault))

    def open(self, path, flags, *mode):
        self._may("open")
        return os.open(path, flags, *mode)

    def pwrite(self, file, data, offset):
        self._may("later" if self.passed else "first")
        self.passed.append(offset)
        return os.pwrite(file, data[: self.short], offset)


@pytest.fixture
def passing(monkeypatch):
    """Puts such a module in the place of the machine's."""
    monkeypatch.setattr(writing, "BLOCK", BLOCK)
    monkeypatch.setattr(writing, "SPAN", SPAN)
    return lambda **how: monkeypatch.setattr(writing, "os", found := Passing(**how)) or found


def written(folder, sizes):
    """Whether a file of pieces of these sizes has what it should have."""
    pieces = [np.random.default_rng(size).bytes(size) for size in sizes]
    storage.LocalStorage(str(folder)).write("file", map(memoryview, pieces))
    assert os.listdir(folder) == ["file"]
    return (folder / "file").read_bytes() == b"".join(pieces)


def test_whole_spans_pass_the_cache_and_the_rest_goes_through_it(tmp_path, passing):
    found = passing()
    assert written(tmp_path, [3 * SPAN + 5])
    assert sorted(found.passed) == sorted([0, *range(0, 3 * SPAN, BLOCK)])  # the first is a trial
    assert not [thread for thread in threading.enumerate() if "aioflow-files" in thread.name]


def test_pieces_of_any_size_make_a_whole_file(tmp_path, passing):
    assert passing()
    assert written(tmp_path, ODD)


def test_a_small_file_goes_through_the_cache(tmp_path, passing):
    found = passing()
    assert written(tmp_path, [SPAN - 1])
    assert not found.passed


def test_blocks_that_are_not_written_at_once_are_written_to_their_end(tmp_path, passing):
    assert passing(short=BLOCK // 2 + 3)
    assert written(tmp_path, ODD)


@pytest.mark.parametrize("what", ["open", "first"])
def test_where_the_file_system_does_not_let_it_all_goes_through_the_cache(tmp_path, passing, what):
    found = passing(refuses=what)
    assert written(tmp_path, ODD)
    assert not found.passed


def test_what_cannot_be_written_past_the_cache_on_the_way_goes_through_it(tmp_path, passing):
    """As where a file may not be so long: then it is the cache that says why."""
    found = passing(refuses="later")
    assert written(tmp_path, ODD)
    assert found.passed == [0]


def test_while_the_interpreter_ends_a_file_is_written_to_its_end(tmp_path, passing, monkeypatch):
    def ends(*work):
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    passing()
    monkeypatch.setattr(writing.ThreadPoolExecutor, "submit", ends)
    assert written(tmp_path, ODD)


def test_where_the_system_knows_no_such_writes_all_goes_through_the_cache(tmp_path, passing, monkeypatch):
    passing()
    monkeypatch.setattr(writing, "os", SimpleNamespace(open=os.open, pwritev=os.pwritev, O_WRONLY=os.O_WRONLY))
    assert written(tmp_path, ODD)


def test_a_disk_that_is_full_on_the_way_leaves_nothing(tmp_path, passing):
    passing(refuses="later", fault=errno.ENOSPC)
    with pytest.raises(errors.ResourceExhaustedError):
        written(tmp_path, ODD)
    assert os.listdir(tmp_path) == []
    assert not [thread for thread in threading.enumerate() if "aioflow-files" in thread.name]


@pytest.mark.long
def test_this_machine_writes_large_files_whole(tmp_path):
    assert written(tmp_path, [*ODD, 3 * writing.SPAN + 4097, 77])
