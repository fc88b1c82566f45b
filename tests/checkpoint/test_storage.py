"""Checkpoints at URLs: nothing is renamed there, a file is seen once it is whole, and the manifest decides."""

import io
import random
import sys

import fsspec
import numpy as np
import pytest

from aioflow import errors
from aioflow.checkpoint import (
    Checkpoint,
    Draft,
    delete_checkpoint,
    import_safetensors,
    latest_checkpoint,
    list_checkpoints,
    sweep,
    write_pointer,
)
from aioflow.files.filesystem import Files
from tests.checkpoint.test_checkpoint import VALUES, equal, save

HERE = "bucket://runs/ckpt"


class PowerCut(BaseException):
    """The client is gone: so it ends whatever it would do next."""


class Bucket(fsspec.AbstractFileSystem):
    """An object store: names with contents, each put whole; there are no folders, and nothing is renamed."""

    protocol = "bucket"
    cachable = False
    held = {}  # noqa: RUF012 - of all clients
    done, cut_at, fail_at = 0, None, None

    @classmethod
    def clear(cls):
        cls.held.clear()
        cls.done, cls.cut_at, cls.fail_at = 0, None, None

    @classmethod
    def changes(cls):
        if cls.done == cls.cut_at:
            raise PowerCut
        cls.done += 1
        if cls.done == cls.fail_at:
            raise OSError(122, "Quota exceeded")

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self.changes()
        self.held[self._strip_protocol(path)] = bytes(value)

    def _open(self, path, mode="rb", **kwargs):
        assert mode == "wb"
        return _Upload(self, path)

    def cat_file(self, path, start=None, end=None, **kwargs):
        return self._found(path)[start:end]

    def rm_file(self, path):
        self.changes()
        self._found(path)
        del self.held[self._strip_protocol(path)]

    def ls(self, path, detail=True, **kwargs):
        path = self._strip_protocol(path)
        if path in self.held:
            return [{"name": path, "size": len(self.held[path]), "type": "file"}] if detail else [path]
        below = {
            path + "/" + name[len(path) + 1 :].partition("/")[0] for name in self.held if name.startswith(path + "/")
        }
        if not below:
            raise FileNotFoundError(path)
        told = [
            {"name": name, "size": len(self.held.get(name, b"")), "type": "file" if name in self.held else "directory"}
            for name in sorted(below)
        ]
        return told if detail else [one["name"] for one in told]

    def _found(self, path):
        try:
            return self.held[self._strip_protocol(path)]
        except KeyError:
            raise FileNotFoundError(path) from None


class _Upload(io.BytesIO):
    """An object that is being put: it is there when this is closed."""

    def __init__(self, bucket, path):
        super().__init__()
        self.bucket, self.path = bucket, path

    def write(self, data):
        self.bucket.changes()
        return super().write(data)

    def close(self):
        if not self.closed:
            data = self.getvalue()
            super().close()
            self.bucket.pipe_file(self.path, data)


@pytest.fixture(autouse=True)
def bucket():
    fsspec.register_implementation("bucket", Bucket, clobber=True)
    Bucket.clear()
    yield Bucket
    Bucket.clear()


@pytest.fixture(params=["memory://runs/ckpt", HERE])
def here(request):
    yield request.param
    if request.param.startswith("memory"):
        fsspec.filesystem("memory").store.clear()
        fsspec.filesystem("memory").pseudo_dirs[:] = [""]


def test_what_was_saved_is_read(here):
    assert save(f"{here}/c-1", VALUES, facts={"global_step": 7}) == f"{here}/c-1"
    checkpoint = Checkpoint.open(f"{here}/c-1")
    assert all(equal(checkpoint.read(name), np.asarray(value)) for name, value in VALUES.items())
    checkpoint.verify()
    assert checkpoint.read("large", [5], [4]).tolist() == VALUES["large"][5:9].tolist()
    assert checkpoint.facts == {"global_step": 7}


def test_a_directory_is_looked_through_swept_and_cleared(here):
    for number in (1, 2):
        save(f"{here}/c-{number}", {"a": np.full(2, number)}, created=float(number))
    save(f"{here}/c-1", {"a": np.full(2, 3)}, token="again", created=3.0)
    for token in ("dead", "live"):
        Draft(f"{here}/c-3", token).write_shard(0, 1, {"a": np.zeros(2)})
    write_pointer(here, [f"{here}/c-1"])
    assert [checkpoint.path for checkpoint in list_checkpoints(here)] == [f"{here}/c-2", f"{here}/c-1"]
    assert latest_checkpoint(here) == f"{here}/c-1"
    assert Checkpoint.open(f"{here}/c-1").read("a").tolist() == [3, 3]
    sweep(here, live=["live"])
    system, place = fsspec.core.url_to_fs(here)
    left = {path.rpartition("ckpt/")[2] for path in system.find(place)}
    assert {name for name in left if name.startswith("c-3")} == {"c-3/model-00001-of-00001.saved-live.safetensors"}
    Draft(f"{here}/c-3", "live").discard()
    for number in (1, 2, 3, 4):
        delete_checkpoint(f"{here}/c-{number}")
    assert [path.rpartition("/")[2] for path in system.find(place)] == ["checkpoint"]
    assert latest_checkpoint(here) is None


def test_plain_files_are_read(here, tmp_path):
    save(f"{here}/c-1", {"a": np.arange(3)})
    name = "model-00001-of-00001.saved-t.safetensors"
    for path in (f"{here}/c-1", f"{here}/c-1/{name}"):
        assert import_safetensors(path).read("a").tolist() == [0, 1, 2]
    with pytest.raises(errors.NotFoundError):
        import_safetensors(f"{here}/c-2")


def test_what_is_missing_or_short_is_told(bucket):
    with pytest.raises(errors.NotFoundError, match="there is no checkpoint 'bucket://runs/ckpt/c-1'"):
        Checkpoint.open(f"{HERE}/c-1")
    save(f"{HERE}/c-1", {"a": np.arange(3)})
    checkpoint = Checkpoint.open(f"{HERE}/c-1")
    (shard,) = [name for name in bucket.held if name.endswith("safetensors")]
    bucket.held[shard] = bucket.held[shard][:-1]
    with pytest.raises(errors.DataLossError, match="ends too early"):
        checkpoint.read("a")
    with pytest.raises(errors.DataLossError, match="bytes instead of"):
        Checkpoint.open(f"{HERE}/c-1")


def test_roots_bound_urls_too(here):
    with pytest.raises(errors.PermissionDeniedError, match="may not be used"):
        Draft(f"{here}/c-1", "t", Files([f"{here}/other"]))
    files = Files([here])
    Draft(f"{here}/c-1", "t", files).commit([Draft(f"{here}/c-1", "t", files).write_shard(0, 1, {"a": 1})], {})
    assert latest_checkpoint(here, files) == f"{here}/c-1"


def test_without_fsspec_a_url_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for use in (Checkpoint.open, latest_checkpoint, lambda url: Draft(url, "t")):
        with pytest.raises(errors.UnimplementedError, match=r"pip install aioflow-engine\[storage\]"):
            use("s3://bucket/c-1")


# Whatever is cut short


def state(number):
    return {"a": np.arange(6.0) + number, "b": np.float64(number)}


def put(name, number):
    pieces, draft = state(number), Draft(f"{HERE}/{name}", f"t{number}")
    try:
        records = [draft.write_shard(place, 2, {tensor: pieces[tensor]}) for place, tensor in enumerate("ab")]
        draft.commit(records, {"number": number}, float(number))
    except errors.OpError:
        draft.discard()
        raise


def there():
    """The number of each checkpoint that is there, by name; each is whole, and is what it says it is."""
    found = {}
    for checkpoint in list_checkpoints(HERE):
        checkpoint.verify()
        number = checkpoint.facts["number"]
        assert all(checkpoint.read(name).tolist() == value.tolist() for name, value in state(number).items())
        found[checkpoint.path.rpartition("/")[2]] = number
    return found


PROGRAMS = {
    "a first one": (lambda: None, lambda: put("c1", 1), [{}, {"c1": 1}]),
    "another": (lambda: put("c1", 1), lambda: put("c2", 2), [{"c1": 1}, {"c1": 1, "c2": 2}]),
    "in its place": (lambda: put("c1", 1), lambda: put("c1", 2), [{"c1": 1}, {"c1": 2}]),
    "deleting": (
        lambda: (put("c1", 1), put("c2", 2)),
        lambda: delete_checkpoint(f"{HERE}/c1"),
        [{"c1": 1, "c2": 2}, {"c2": 2}],
    ),
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("how", ["cut_at", "fail_at"])
def test_everything_may_end_or_fail_before_any_request(bucket, program, how):
    before, act, allowed = PROGRAMS[program]
    before()
    begin = bucket.done
    act()
    steps = bucket.done - begin
    for step in range(1, steps + 1):
        bucket.clear()
        before()
        setattr(bucket, how, bucket.done + step - (how == "cut_at"))
        try:
            act()
            done = True
        except (PowerCut, errors.ResourceExhaustedError):
            done = False
        bucket.cut_at = bucket.fail_at = None
        found = there()
        assert found == allowed[-1] if done else found in allowed
        sweep(HERE)
        put("next", 9)
        assert there() == {**found, "next": 9}
        kept = {name for checkpoint in list_checkpoints(HERE) for name in _files(checkpoint)}
        strays = {name for name in bucket.held if name.endswith("safetensors")} - kept
        assert strays == set(), step


def _files(checkpoint):
    folder = checkpoint.path.removeprefix("bucket://")
    return {f"{folder}/{file}" for stored in checkpoint.tensors.values() for file, _ in stored.pieces}


def test_tasks_write_in_any_order_and_drafts_do_not_meet(bucket):
    drafts = {token: Draft(f"{HERE}/c1", token) for token in ("one", "two")}
    writes = [(token, place) for token in drafts for place in (0, 1)]
    random.Random(4).shuffle(writes)
    records = {"one": [], "two": []}
    for token, place in writes:
        records[token].append(drafts[token].write_shard(place, 2, {f"{token}{place}": np.ones(3)}))
    drafts["two"].discard()
    drafts["one"].commit(records["one"], {})
    assert Checkpoint.open(f"{HERE}/c1").tensors.keys() == {"one0", "one1"}
