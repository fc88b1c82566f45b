"""A directory of checkpoints: lists them, deletes them, and removes the remains of interrupted saves.

The directory's entries decide which checkpoints there are. The text file `checkpoint`, known from TensorFlow, is for
people and for later processes: it names the checkpoints that may still be deleted.
"""

import contextlib
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from aioflow import errors
from aioflow.checkpoint.bundle import INDEX as BUNDLE
from aioflow.checkpoint.bundle import Bundle
from aioflow.checkpoint.manifest import INDEX, MANIFEST, files_in_index, index, read_json, read_manifest
from aioflow.checkpoint.reading import Checkpoint
from aioflow.checkpoint.retention import series
from aioflow.checkpoint.storage import Storage, locate
from aioflow.files.filesystem import FILES, Files, Path, as_name

_NAME: Final = r"model-\d{5,}-of-\d{5,}(?:\.saved-([A-Za-z0-9_\-]{1,64}))?\.safetensors"
_SHARD: Final = re.compile(_NAME)
_DRAFT: Final = re.compile(r"\.(.+)\.(?:([A-Za-z0-9_\-]{1,64})\.draft|deleted)")
_PART: Final = re.compile(rf"(checkpoint|{_NAME}|{re.escape(MANIFEST)}|{re.escape(INDEX)})\.[0-9a-f]{{8}}\.part")
_POINTER: Final = re.compile(r'all_model_checkpoint_paths: (".*")')
_INVALID: Final = (
    errors.NotFoundError, errors.DataLossError, errors.FailedPreconditionError, errors.UnimplementedError,
    errors.PermissionDeniedError, errors.ResourceExhaustedError,
)  # fmt: skip
"""The errors of opening an entry that is no checkpoint. A failing file system raises others."""


def list_checkpoints(directory: Path, files: Files = FILES) -> list[Checkpoint]:
    """Return the valid checkpoints in a directory, also TensorFlow's, opened by `Checkpoint.open`, newest last."""
    given, storage = _storage(directory, files)
    names = [entry.removesuffix(BUNDLE) for entry in storage.entries() if not entry.startswith(".")]
    paths = [f"{given}/{name}" for name in dict.fromkeys(names) if name]
    found = [checkpoint for checkpoint in (_open_if_valid(path, files) for path in paths) if checkpoint is not None]
    return sorted(found, key=lambda checkpoint: (checkpoint.created, checkpoint.path))


def damaged_checkpoints(directory: Path, name: str, files: Files = FILES) -> list[str]:
    """Return the paths of folders `name` and `name-N` that have a part of a checkpoint, but no valid one.

    Remains of interrupted saves and deletions are none.
    """
    given, storage = _storage(directory, files)
    folders = {entry: storage.entries(entry) for entry in storage.entries() if series(entry) == name}
    own = [entry for entry, parts in folders.items() if MANIFEST in parts or any(_token(part) == "" for part in parts)]
    return [path for path in (f"{given}/{entry}" for entry in own) if _open_if_valid(path, files) is None]


def latest_checkpoint(directory: Path, files: Files = FILES) -> str | None:
    """Return the path of the newest valid checkpoint in a directory; None if there is none."""
    found = list_checkpoints(directory, files)
    return found[-1].path if found else None


def last_checkpoints(directory: Path, files: Files = FILES) -> list[Checkpoint]:
    """Return the checkpoints of `list_checkpoints` that may still be deleted; the others are kept for ever.

    The file `checkpoint` names them. A process that dies while it saves leaves a newer one that the file does not name.
    """
    pointed = set(_read_pointer(_storage(directory, files)[1]))
    own = [each for each in list_checkpoints(directory, files) if not isinstance(each, Bundle)]
    found = [(_last_part(each.path), each) for each in own]
    newest = {series(name): each.created for name, each in found if name in pointed}
    return [each for name, each in found if name in pointed or each.created > newest.get(series(name), math.inf)]


def delete_checkpoint(path: Path, files: Files = FILES) -> None:
    """Delete the checkpoint at that path, if there is one. Other files in its folder stay."""
    storage, name = locate(as_name(path).rstrip("/"), files)
    entries = storage.entries(name)
    if MANIFEST not in entries:
        return
    if storage.can_rename and _has_only_own_files(storage, name):
        storage.remove(_deletion_name(name))
        storage.move(name, _deletion_name(name))
        storage.remove(_deletion_name(name))
        return
    storage.remove(f"{name}/{MANIFEST}")
    storage.remove(f"{name}/{INDEX}")
    sweep_shards(storage, name, ())
    if not storage.entries(name):
        storage.remove(name)


def write_pointer(directory: Path, paths: Sequence[str], files: Files = FILES) -> None:
    """Write the file `checkpoint` of a directory, which names the last checkpoints, newest last, as in TensorFlow.

    It still names the existing checkpoints of other series that it named before.
    """
    _, storage = _storage(directory, files)
    own = [_last_part(path) for path in paths]
    mine, there = {series(name) for name in own}, set(storage.entries())
    others = [name for name in _read_pointer(storage) if name in there and series(name) not in mine]
    lines = [f"all_model_checkpoint_paths: {json.dumps(name)}" for name in [*others, *own]]
    text = "\n".join([f"model_checkpoint_path: {json.dumps(own[-1])}", *lines, ""])
    storage.write("checkpoint", [memoryview(text.encode())])


def _read_pointer(storage: Storage) -> list[str]:
    """Return the names in the file `checkpoint`; empty if it cannot be read."""
    try:
        source = storage.open("checkpoint")
    except _INVALID:
        return []
    try:
        text = bytearray(source.size)
        source.read_into(0, memoryview(text))
        found = [_POINTER.fullmatch(line) for line in text.decode().splitlines()]
        return [_last_part(json.loads(line[1])) for line in found if line is not None]
    except (errors.DataLossError, ValueError):
        return []
    finally:
        source.close()


def _last_part(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def sweep(
    directory: Path,
    live: Collection[str] = (),
    files: Files = FILES,
    *,
    name: str | None = None,
    owner: str | None = None,
    before: float = math.inf,
) -> None:
    """Remove the remains of interrupted saves and deletions from a directory, as when a process died.

    Links stay, and so do folders with files that do not belong to a checkpoint. The caller is the process that commits
    drafts, since no draft may be committed while it is swept.

    Args:
        directory: its path.
        live: tokens of drafts that are still being written; they stay.
        files: the files that may be removed.
        name: name of a series of checkpoints without steps: only its drafts are removed. None for all.
        owner: prefix of the tokens that only the caller makes; its drafts outside `live` are removed at once.
        before: other drafts are removed if nothing was written to them since then, in seconds since 1970.
    """
    _, storage = _storage(directory, files)
    for entry in storage.entries():
        draft = _DRAFT.fullmatch(entry)
        meant = name in (None, series(entry if draft is None else draft[1])) or _PART.fullmatch(entry) is not None
        for place, token in _find_remains(storage, entry, draft):
            own = owner is not None and token is not None and token.startswith(owner)
            if token not in live and (own or (meant and _is_idle(storage, place, before))):
                _remove(storage, place)


def _find_remains(storage: Storage, entry: str, draft: re.Match[str] | None) -> Iterator[tuple[str, str | None]]:
    """Yield the remains that a directory entry is or contains: (path, token of its draft or None)."""
    status = storage.status(entry)
    if status is None:
        return
    if not status.folder:
        if _PART.fullmatch(entry):
            yield entry, None
    elif draft is not None:
        if _has_only_own_files(storage, entry):
            yield entry, draft[2]
    elif not entry.startswith("."):
        yield from _find_remains_in(storage, entry)


def _find_remains_in(storage: Storage, folder: str) -> Iterator[tuple[str, str | None]]:
    for part in filter(_PART.fullmatch, storage.entries(folder)):
        if _is_file(storage, f"{folder}/{part}"):
            yield f"{folder}/{part}", None
    for file, token in _unnamed_shards(storage, folder):
        if _is_file(storage, f"{folder}/{file}"):
            yield f"{folder}/{file}", token


def _remove(storage: Storage, place: str) -> None:
    """Remove a leftover file. If the index names it, first write the index of the manifest's shards again."""
    folder, _, file = place.rpartition("/")
    if folder and _SHARD.fullmatch(file):
        with contextlib.suppress(*_INVALID):
            if file in files_in_index(read_json(storage, f"{folder}/{INDEX}", folder)):
                shards = read_manifest(storage, folder, folder).shards
                storage.write(f"{folder}/{INDEX}", [memoryview(index(shards))])
    storage.remove(place)


def _is_idle(storage: Storage, place: str, before: float) -> bool:
    """Whether nothing was written there since `before`."""
    found = [storage.status(each) for each in [place, *(f"{place}/{entry}" for entry in storage.entries(place))]]
    return all(status is not None and not status.changed > before for status in found)


def _is_file(storage: Storage, name: str) -> bool:
    status = storage.status(name)
    return status is not None and not status.folder


def _has_only_own_files(storage: Storage, folder: str) -> bool:
    """Whether the folder has files of a checkpoint and nothing else."""
    return all(_is_own_file(entry) and _is_file(storage, f"{folder}/{entry}") for entry in storage.entries(folder))


def _deletion_name(name: str) -> str:
    """Return the name of a checkpoint's folder while it is being deleted."""
    return f".{name}.deleted"


def shard_name(number: int, count: int, token: str | None = None) -> str:
    """Return the name of a shard. With a token, no other draft has a shard of that name."""
    return f"model-{number + 1:05}-of-{count:05}{f'.saved-{token}' if token else ''}.safetensors"


def is_free(storage: Storage, name: str) -> bool:
    """Whether a checkpoint may be put there: the folder is missing, or holds an older one or remains of drafts."""
    entries = storage.entries(name)
    if MANIFEST not in entries:
        return all(_is_own_file(entry) and _token(entry) != "" for entry in entries)
    try:
        read_manifest(storage, name, name)
    except _INVALID:
        return all(map(_is_own_file, entries))
    return True


def _is_own_file(entry: str) -> bool:
    """Whether the name is one of a checkpoint's files."""
    return entry in (MANIFEST, INDEX) or any(kind.fullmatch(entry) for kind in (_SHARD, _PART))


def _token(entry: str) -> str | None:
    """Return the token in the name of a shard, empty if it has none; None if the entry is no shard."""
    shard = _SHARD.fullmatch(entry)
    return None if shard is None else shard[1] or ""


def draft_name(name: str, token: str) -> str:
    """Return the name of the folder in which a draft is written."""
    return f".{name}.{token}.draft"


def sweep_draft(storage: Storage, name: str, token: str) -> None:
    """Remove all files of the draft with that token, except those that were committed."""
    storage.remove(draft_name(name, token))
    for file, made_by in _unnamed_shards(storage, name):
        if made_by == token:
            _remove(storage, f"{name}/{file}")


def sweep_shards(storage: Storage, name: str, kept: Collection[str]) -> None:
    """Remove all shards of a checkpoint's folder but `kept`."""
    for entry in storage.entries(name):
        if _token(entry) is not None and entry not in kept:
            storage.remove(f"{name}/{entry}")


def _unnamed_shards(storage: Storage, name: str) -> Iterator[tuple[str, str]]:
    """Yield (file, token) of the shards that the manifest of a folder does not name.

    Without a manifest these are all shards with a token. With an unreadable one there are none: it may be of another
    version and name them.
    """
    shards = [(entry, token) for entry in storage.entries(name) if (token := _token(entry)) is not None]
    try:
        kept = {shard.file for shard in read_manifest(storage, name, name).shards} if shards else set()
    except errors.NotFoundError:
        kept = {entry for entry, token in shards if not token}
    except _INVALID:
        return
    yield from ((entry, token) for entry, token in shards if entry not in kept)


def _open_if_valid(path: str, files: Files) -> Checkpoint | None:
    try:
        return Checkpoint.open(path, files)
    except _INVALID:
        return None


def _storage(directory: Path, files: Files) -> tuple[str, Storage]:
    """Return the directory's name, and its storage."""
    name = as_name(directory)
    given = name.rstrip("/") or name[:1] or "."
    return given, locate(f"{given}/_", files)[0]
