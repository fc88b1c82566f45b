"""A directory with checkpoints: which are there, which is newest, what stays and what goes."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioflow import errors
from aioflow.checkpoint import (
    Checkpoint,
    Draft,
    Retention,
    damaged_checkpoints,
    delete_checkpoint,
    import_safetensors,
    last_checkpoints,
    latest_checkpoint,
    list_checkpoints,
    sweep,
    write_pointer,
)
from aioflow.files.filesystem import Files
from tests.checkpoint.test_checkpoint import save

STATE = {"a": np.zeros(2)}


def names(directory):
    return [checkpoint.path.rpartition("/")[2] for checkpoint in list_checkpoints(directory)]


def test_the_newest_is_the_one_saved_last_that_is_whole(tmp_path):
    for name, created in (("c-9", 1.0), ("c-10", 2.0), ("c-2", 3.0), ("best", 3.0)):
        save(tmp_path / name, STATE, created=created)
    assert names(tmp_path) == ["c-9", "c-10", "best", "c-2"]
    assert latest_checkpoint(f"{tmp_path}/") == f"{tmp_path}/c-2"
    (tmp_path / "c-2" / "manifest.json").write_text("{}")
    (tmp_path / "best" / "model-00001-of-00001.safetensors").unlink()
    write_pointer(tmp_path, [f"{tmp_path}/c-9", f"{tmp_path}/c-2"])
    assert latest_checkpoint(tmp_path) == f"{tmp_path}/c-10"


def test_damaged_checkpoints_are_those_with_a_part_that_no_draft_has_left(tmp_path):
    parts = "manifest.json", "model-00001-of-00001.safetensors", "model.safetensors.index.json"
    for number, part in enumerate(parts):
        save(tmp_path / f"c-{number}", STATE)
        (tmp_path / f"c-{number}" / part).unlink()
    for name in ("c-3", "c-4", "other-1"):
        save(tmp_path / name, STATE)
    for name in ("c-3", "other-1"):
        (tmp_path / name / "manifest.json").write_bytes(bytes(9))
    Draft(tmp_path / "c-5", "t").write_shard(0, 1, STATE)
    (tmp_path / "c-6").write_text("mine")
    (tmp_path / "c-7").mkdir()
    assert damaged_checkpoints(tmp_path, "c") == [f"{tmp_path}/c-{number}" for number in range(4)]
    assert damaged_checkpoints(tmp_path / "nowhere", "c") == []


def test_what_else_lies_there_is_no_checkpoint(tmp_path):
    assert latest_checkpoint(tmp_path / "nowhere") is None
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    Draft(tmp_path / "c", "t").write_shard(0, 1, STATE)
    assert list_checkpoints(tmp_path) == []
    with pytest.raises(errors.NotFoundError, match=r"there is no checkpoint '.*file': manifest\.json is missing"):
        Checkpoint.open(tmp_path / "file")


def test_a_link_to_a_checkpoint_is_one(tmp_path):
    save(tmp_path / "runs" / "c-1", STATE)
    (tmp_path / "best").symlink_to(tmp_path / "runs" / "c-1")
    assert Checkpoint.open(tmp_path / "best").read("a").tolist() == [0, 0]
    assert latest_checkpoint(tmp_path) == f"{tmp_path}/best"


def test_paths_are_relative_to_where_the_process_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert save("c-1", STATE) == "c-1"
    assert save(b"c-2/", STATE) == "c-2"
    assert names(".") == ["c-1", "c-2"]
    assert latest_checkpoint("") == "./c-2"
    assert latest_checkpoint("file://" + str(tmp_path)) == f"file://{tmp_path}/c-2"
    for nowhere in ("/", ""):
        with pytest.raises(errors.OpError):
            Checkpoint.open(nowhere)


def test_the_pointer_names_the_last_ones_for_people(tmp_path):
    write_pointer(tmp_path, [f"{tmp_path}/c-1", f'{tmp_path}/c-"2"'])
    assert (tmp_path / "checkpoint").read_text().splitlines() == [
        r'model_checkpoint_path: "c-\"2\""',
        r'all_model_checkpoint_paths: "c-1"',
        r'all_model_checkpoint_paths: "c-\"2\""',
    ]


def test_the_pointer_goes_on_naming_those_of_others_that_are_there(tmp_path):
    for name in ("best-3", "m-1", "m-2", "m-3"):
        save(tmp_path / name, STATE)
    write_pointer(tmp_path, ["best-2", "best-3"])
    write_pointer(tmp_path, ["m-1", "m-2"])
    write_pointer(tmp_path, ["m-2", "m-3"])
    lines = ['model_checkpoint_path: "m-3"', *(f'all_model_checkpoint_paths: "{n}"' for n in ("best-3", "m-2", "m-3"))]
    assert (tmp_path / "checkpoint").read_text().splitlines() == lines
    assert {found.path.rpartition("/")[2] for found in last_checkpoints(tmp_path)} == {"best-3", "m-2", "m-3"}


def test_one_that_was_saved_before_it_could_be_named_is_one_of_the_last(tmp_path):
    for created, name in enumerate(["m-1", "m-2", "m-3", "best-4", "m-5"]):
        save(tmp_path / name, STATE, created=float(created))
    write_pointer(tmp_path, ["m-2", "m-3"])
    assert [found.path.rpartition("/")[2] for found in last_checkpoints(tmp_path)] == ["m-2", "m-3", "m-5"]


@pytest.mark.parametrize("text", [b"", b"\xff", b'all_model_checkpoint_paths: "\\"', b'model_checkpoint_path: "m-1"'])
def test_what_no_pointer_names_is_none_of_the_last(tmp_path, text):
    save(tmp_path / "m-1", STATE)
    assert last_checkpoints(tmp_path) == []
    (tmp_path / "checkpoint").write_bytes(text)
    assert last_checkpoints(tmp_path) == []
    write_pointer(tmp_path, ["m-1"])
    assert [found.path for found in last_checkpoints(tmp_path)] == [str(tmp_path / "m-1")]


def test_a_deleted_checkpoint_leaves_nothing_but_what_is_not_its_own(tmp_path):
    for name in ("c-1", "c-2"):
        save(tmp_path / name, STATE)
    (tmp_path / "c-2" / "notes.txt").write_text("mine")
    for name in ("c-1", "c-2", "c-1", "none"):
        delete_checkpoint(tmp_path / name)
    assert os.listdir(tmp_path) == ["c-2"]
    assert os.listdir(tmp_path / "c-2") == ["notes.txt"]
    (tmp_path / "c-2" / "model-00001-of-00002.safetensors").write_text("theirs, without a manifest")
    (tmp_path / "file").write_text("mine")
    for name in ("c-2", "file"):
        delete_checkpoint(tmp_path / name)
    sweep(tmp_path)
    assert (tmp_path / "file").read_text() == "mine"
    assert len(os.listdir(tmp_path / "c-2")) == 2


def test_drafts_that_were_given_up_are_swept_and_those_being_written_stay(tmp_path):
    for token in ("dead", "live"):
        Draft(tmp_path / "c", token).write_shard(0, 1, STATE)
    save(tmp_path / "d", STATE)
    for part in ("checkpoint.0123abcd.part", "d/manifest.json.0123abcd.part"):
        (tmp_path / part).touch()
    for mine in (".hidden", "d/mine.part", "model.0123abcd.part"):
        (tmp_path / mine).touch()
    sweep(tmp_path, live=["live"])
    assert sorted(os.listdir(tmp_path)) == [".c.live.draft", ".hidden", "d", "model.0123abcd.part"]
    sweep(tmp_path)
    assert sorted(os.listdir(tmp_path)) == [".hidden", "d", "model.0123abcd.part"]
    assert len(os.listdir(tmp_path / "d")) == 4


def test_drafts_of_others_are_swept_only_if_they_rest_and_only_those_of_that_name(tmp_path):
    for name, token in (("m-1", "me-1"), ("m-1", "me-live"), ("m-2", "you"), ("best-2", "me-2"), ("best-2", "you")):
        Draft(tmp_path / name, token).write_shard(0, 1, STATE)
    (tmp_path / "checkpoint.0123abcd.part").touch()
    now = os.stat(tmp_path / "checkpoint.0123abcd.part").st_ctime
    sweep(tmp_path, ["me-live"], name="m", owner="me-", before=now - 3600)
    others = [".best-2.you.draft", ".m-1.me-live.draft", ".m-2.you.draft", "checkpoint.0123abcd.part"]
    assert sorted(os.listdir(tmp_path)) == others
    sweep(tmp_path, ["me-live"], name="m", owner="me-", before=now + 3600)
    assert sorted(os.listdir(tmp_path)) == others[:2]


def test_what_lies_behind_links_and_hidden_folders_of_others_are_not_swept(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, outside / "c", outside / ".c.t.draft", inside, inside / ".c.mine.draft", inside / "data"):
        folder.mkdir()
    strays = ["manifest.json.01234567.part", "model-00001-of-00001.saved-abc.safetensors"]
    for stray in strays:
        (outside / "c" / stray).touch()
        (outside / ".c.t.draft" / stray).touch()
        (inside / "data" / stray).mkdir()
    (inside / ".c.mine.draft" / "thesis.txt").touch()
    for link in ("c", ".c.t.draft"):
        (inside / link).symlink_to(outside / link)
    Draft(inside / "d", "dead").write_shard(0, 1, STATE)
    sweep(inside)
    assert sorted(os.listdir(inside)) == [".c.mine.draft", ".c.t.draft", "c", "data"]
    assert sorted(os.listdir(outside / "c")) == sorted(os.listdir(outside / ".c.t.draft")) == strays
    assert sorted(os.listdir(inside / "data")) == strays
    assert os.listdir(inside / ".c.mine.draft") == ["thesis.txt"]


def test_a_folder_that_is_called_like_a_file_of_a_checkpoint_stays_when_that_is_deleted(tmp_path):
    save(tmp_path / "c", STATE)
    (tmp_path / "c" / "manifest.json.01234567.part").mkdir()
    delete_checkpoint(tmp_path / "c")
    assert os.listdir(tmp_path) == ["c"]
    assert os.listdir(tmp_path / "c") == ["manifest.json.01234567.part"]


def test_shards_beside_a_manifest_that_cannot_be_read_are_not_swept(tmp_path):
    save(tmp_path / "c", STATE, token="one")
    save(tmp_path / "c", STATE, token="two")
    manifest = tmp_path / "c" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version":1', '"version":2'))
    sweep(tmp_path)
    assert "model-00001-of-00001.saved-two.safetensors" in os.listdir(tmp_path / "c")


def test_roots_bound_where_checkpoints_are(tmp_path):
    files, inside, outside = Files([tmp_path / "in"]), tmp_path / "in" / "c", tmp_path / "out" / "c"
    Draft(inside, "t", files).commit([Draft(inside, "t", files).write_shard(0, 1, STATE)], {})
    save(outside, STATE)
    (tmp_path / "in" / "link").symlink_to(outside)
    assert [found.path for found in list_checkpoints(tmp_path / "in", files)] == [str(inside)]
    for path in (outside, tmp_path / "in" / ".." / "out" / "c", tmp_path / "in" / "link"):
        uses = [
            lambda path: Draft(path, "t", files),
            lambda path: Checkpoint.open(path, files),
            lambda path: import_safetensors(path, files),
            lambda path: delete_checkpoint(path, files),
        ]
        for use in uses:
            with pytest.raises(errors.PermissionDeniedError, match="may not be used"):
                use(path)
    for use in (latest_checkpoint, sweep, lambda path, files: write_pointer(path, ["c"], files)):
        with pytest.raises(errors.PermissionDeniedError, match="may not be used"):
            use(tmp_path / "out", files=files)
    assert Checkpoint.open(outside).read("a").tolist() == [0, 0]


# Retention


def test_the_last_ones_stay_and_one_every_so_many_hours():
    retention = Retention(max_to_keep=2, keep_checkpoint_every_n_hours=1, now=0)
    going = {hour: retention.saved(f"c{hour}", hour * 3600) for hour in (0.5, 0.9, 1.2, 1.4, 1.6, 2.1, 2.2, 3.5)}
    assert going == {
        0.5: [], 0.9: [], 1.2: ["c0.5"], 1.4: ["c0.9"], 1.6: [], 2.1: ["c1.4"], 2.2: ["c1.6"], 3.5: []
    }  # fmt: skip
    assert retention.last == [("c2.2", 2.2 * 3600), ("c3.5", 3.5 * 3600)]


def test_all_stay_if_none_are_to_go():
    retention = Retention(max_to_keep=0)
    assert [retention.saved(f"c{number}", number) for number in range(50)] == [[]] * 50


def test_one_that_was_replaced_counts_once_and_as_new():
    retention = Retention(max_to_keep=2)
    assert [retention.saved(name, time) for time, name in enumerate("aba")] == [[], [], []]
    assert retention.saved("c", 3) == ["b"]


def test_those_of_an_earlier_process_are_taken_up():
    retention = Retention(max_to_keep=2)
    retention.recover([("a", 1), ("b", 2), ("c", 3)])
    assert retention.saved("d", 4) == ["a", "b"]


def test_of_those_that_were_found_only_those_count_that_are_called_like_the_first_saved():
    retention = Retention(max_to_keep=2)
    retention.find([("d/best-1", 1), ("d/m-1", 2), ("other/m-1", 3), ("d/m", 4), ("d/m-2", 5)])
    assert retention.last == []
    assert retention.saved("d/m-3", 6) == ["d/m-1", "d/m"]
    assert retention.last == [("d/m-2", 5), ("d/m-3", 6)]
    assert retention.saved("d/best-2", 7) == ["d/m-2"]


@pytest.mark.parametrize("path", ["./run/m-1", "run//m-1/", "{here}/run/m-1", "file://{here}/run/m-1"])
def test_a_path_is_the_same_however_it_is_spelled(path):
    retention, path = Retention(max_to_keep=1), path.format(here=os.getcwd())
    assert retention.saved("run/m-1", 0) == retention.saved(path, 1) == []
    assert retention.last == [(path, 1)]


@pytest.mark.parametrize("wrong", [{"max_to_keep": -1}, {"keep_checkpoint_every_n_hours": 0}])
def test_retention_says_what_it_cannot_keep(wrong):
    with pytest.raises(ValueError, match="max_to_keep must be at least 0"):
        Retention(**wrong)


@given(most=st.integers(1, 4), hours=st.floats(0.5, 5), gaps=st.lists(st.floats(0, 3), max_size=30))
def test_what_goes_was_saved_never_goes_twice_and_never_is_one_of_the_last(most, hours, gaps):
    retention, now, there, kept = Retention(most, hours), 0.0, [], []
    for number, gap in enumerate(gaps):
        now += gap
        going = retention.saved(f"c{number}", now * 3600)
        there.append((f"c{number}", now))
        last = {name for name, _ in there[-most:]}
        assert not last.intersection(going)
        left = [one for one in there if one[0] not in going]
        assert len(there) - len(left) == len(going) == len(set(going))
        there = left
        kept = [time for name, time in there if name not in last]
    assert len(kept) <= now / hours  # not more than one for each so many hours


def test_retention_needs_no_time_of_its_own():
    assert Retention(1).saved("a", 0.0) == []
