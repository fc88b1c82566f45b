"""A directory with checkpoints: which are there, which is the newest, what is left over of drafts.

What is there is found by looking. The text file `checkpoint`, which TensorFlow's users know, is written for people, and
for a later process: it names those of what is there that may be deleted.
"""

import contextlib
import json
import math
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from aioflow import errors
from aioflow.checkpoint.manifest import INDEX, MANIFEST, index, names_in_index, read_json, read_manifest
from aioflow.checkpoint.place import located
from aioflow.checkpoint.reading import Checkpoint
from aioflow.checkpoint.retention import series
from aioflow.checkpoint.storage import Storage
from aioflow.files.filesystem import FILES, Files, Path, as_name

_NAME: Final = r"model-\d{5,}-of-\d{5,}(?:\.saved-([A-Za-z0-9_\-]{1,64}))?\.safetensors"
_SHARD: Final = re.compile(_NAME)
_DRAFT: Final = re.compile(r"\.(.+)\.(?:([A-Za-z0-9_\-]{1,64})\.draft|deleted)")
_PART: Final = re.compile(rf"(checkpoint|{_NAME}|{re.escape(MANIFEST)}|{re.escape(INDEX)})\.[0-9a-f]{{8}}\.part")
_POINTED: Final = re.compile(r'all_model_checkpoint_paths: (".*")')
_NOT_ONE: Final = (
    errors.NotFoundError, errors.DataLossError, errors.FailedPreconditionError, errors.UnimplementedError,
    errors.PermissionDeniedError, errors.ResourceExhaustedError,
)  # fmt: skip
"""How opening ends if something is no checkpoint; not if it cannot be reached now."""


def list_checkpoints(directory: Path, files: Files = FILES) -> list[Checkpoint]:
    """The checkpoints in a directory, as `Checkpoint.open` gives them, the newest last; what is damaged is left out."""
    given, storage = _storage(directory, files)
    paths = [f"{given}/{entry}" for entry in storage.entries() if not entry.startswith(".")]
    found = [checkpoint for checkpoint in (_opened(path, files) for path in paths) if checkpoint is not None]
    return sorted(found, key=lambda checkpoint: (checkpoint.created, checkpoint.path))


def latest_checkpoint(directory: Path, files: Files = FILES) -> str | None:
    """The path of the newest checkpoint in a directory that is whole; None if there is none."""
    found = list_checkpoints(directory, files)
    return found[-1].path if found else None


def last_checkpoints(directory: Path, files: Files = FILES) -> list[Checkpoint]:
    """Those of `list_checkpoints` that were saved last, and are not kept for ever.

    The file `checkpoint` names them; but not one that was saved when a process died, which is newer than those.
    """
    pointed = set(_pointed(_storage(directory, files)[1]))
    found = [(_last_part(each.path), each) for each in list_checkpoints(directory, files)]
    newest = {series(name): each.created for name, each in found if name in pointed}
    return [each for name, each in found if name in pointed or each.created > newest.get(series(name), math.inf)]


def delete_checkpoint(path: Path, files: Files = FILES) -> None:
    """There is no checkpoint at that path. Files beside it in its folder stay, and so does what was no checkpoint."""
    storage, name = located(as_name(path).rstrip("/"), files)
    entries = storage.entries(name)
    if MANIFEST not in entries:
        return
    if storage.renames and _is_all_own(storage, name):
        storage.remove(_going(name))
        storage.move(name, _going(name))
        storage.remove(_going(name))
        return
    storage.remove(f"{name}/{MANIFEST}")
    storage.remove(f"{name}/{INDEX}")
    sweep_shards(storage, name, ())
    if not storage.entries(name):
        storage.remove(name)


def write_pointer(directory: Path, paths: Sequence[str], files: Files = FILES) -> None:
    """The file `checkpoint` of a directory says, as TensorFlow's does, which checkpoints were saved last, newest last.

    What it has said of others, which are called otherwise than these, it goes on saying while they are there.
    """
    _, storage = _storage(directory, files)
    own = [_last_part(path) for path in paths]
    mine, there = {series(name) for name in own}, set(storage.entries())
    others = [name for name in _pointed(storage) if name in there and series(name) not in mine]
    lines = [f"all_model_checkpoint_paths: {json.dumps(name)}" for name in [*others, *own]]
    text = "\n".join([f"model_checkpoint_path: {json.dumps(own[-1])}", *lines, ""])
    storage.write("checkpoint", [memoryview(text.encode())])


def _pointed(storage: Storage) -> list[str]:
    """The names in the file `checkpoint`, as far as it can be read."""
    try:
        source = storage.open("checkpoint")
    except _NOT_ONE:
        return []
    try:
        text = bytearray(source.size)
        source.read_into(0, memoryview(text))
        found = [_POINTED.fullmatch(line) for line in text.decode().splitlines()]
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
    """Nothing is left in the directory of drafts that were given up, and of deleting, as when a process died.

    What lies behind links stays, and so do folders with what is no file of a checkpoint. Nobody may commit a draft
    meanwhile that is taken for one that was given up, so it is for whoever commits them to call.

    Args:
        directory: which.
        live: the tokens of drafts that are still being written.
        files: what may be removed where.
        name: of checkpoints, without their steps: of others' drafts only those of these go. By default of all.
        owner: what tokens begin with that only the caller makes: but for `live` ones, those drafts were given up.
        before: others were given up if nothing was written in them since then, in seconds since 1970.
    """
    _, storage = _storage(directory, files)
    for entry in storage.entries():
        draft = _DRAFT.fullmatch(entry)
        meant = name in (None, series(entry if draft is None else draft[1])) or _PART.fullmatch(entry) is not None
        for place, token in _left_over(storage, entry, draft):
            own = owner is not None and token is not None and token.startswith(owner)
            if token not in live and (own or (meant and _rests(storage, place, before))):
                _remove(storage, place)


def _left_over(storage: Storage, entry: str, draft: re.Match[str] | None) -> Iterator[tuple[str, str | None]]:
    """What an entry of a directory is, or has in it, that may be left over, and the token of its draft if any."""
    seen = storage.seen(entry)
    if seen is None:
        return
    if not seen.folder:
        if _PART.fullmatch(entry):
            yield entry, None
    elif draft is not None:
        if _is_all_own(storage, entry):
            yield entry, draft[2]
    elif not entry.startswith("."):
        yield from _left_over_beside(storage, entry)


def _left_over_beside(storage: Storage, folder: str) -> Iterator[tuple[str, str | None]]:
    for part in filter(_PART.fullmatch, storage.entries(folder)):
        if _is_file(storage, f"{folder}/{part}"):
            yield f"{folder}/{part}", None
    for file, token in _strays(storage, folder):
        if _is_file(storage, f"{folder}/{file}"):
            yield f"{folder}/{file}", token


def _remove(storage: Storage, place: str) -> None:
    """Remove a leftover file. If the index names it, first write the index of the manifest's shards again."""
    folder, _, file = place.rpartition("/")
    if folder and _SHARD.fullmatch(file):
        with contextlib.suppress(*_NOT_ONE):
            if file in names_in_index(read_json(storage, f"{folder}/{INDEX}", folder)):
                shards = read_manifest(storage, folder, folder).shards
                storage.write(f"{folder}/{INDEX}", [memoryview(index(shards))])
    storage.remove(place)


def _rests(storage: Storage, place: str, before: float) -> bool:
    """Whether nothing was written there since then."""
    found = [storage.seen(each) for each in [place, *(f"{place}/{entry}" for entry in storage.entries(place))]]
    return all(seen is not None and not seen.changed > before for seen in found)


def _is_file(storage: Storage, name: str) -> bool:
    seen = storage.seen(name)
    return seen is not None and not seen.folder


def _is_all_own(storage: Storage, folder: str) -> bool:
    """Whether all that the folder has are files of a checkpoint."""
    return all(_is_own(entry) and _is_file(storage, f"{folder}/{entry}") for entry in storage.entries(folder))


def _going(name: str) -> str:
    """The name of a folder with a checkpoint that is being deleted."""
    return f".{name}.deleted"


def shard_name(number: int, count: int, token: str | None = None) -> str:
    """The name of a shard; with a token, one that no other draft's has."""
    return f"model-{number + 1:05}-of-{count:05}{f'.saved-{token}' if token else ''}.safetensors"


def is_free(storage: Storage, name: str) -> bool:
    """Whether a checkpoint may be put there: there is nothing, an older one, or what is left over of drafts."""
    entries = storage.entries(name)
    if MANIFEST not in entries:
        return all(_is_own(entry) and _token(entry) != "" for entry in entries)
    try:
        read_manifest(storage, name, name)
    except _NOT_ONE:
        return all(map(_is_own, entries))
    return True


def _is_own(entry: str) -> bool:
    """Whether it is what a file of a checkpoint is called."""
    return entry in (MANIFEST, INDEX) or any(kind.fullmatch(entry) for kind in (_SHARD, _PART))


def _token(entry: str) -> str | None:
    """The token in the name of a shard, empty if it has none; None for what is no shard."""
    shard = _SHARD.fullmatch(entry)
    return None if shard is None else shard[1] or ""


def draft_name(name: str, token: str) -> str:
    """The name of the folder in which a draft is written."""
    return f".{name}.{token}.draft"


def sweep_draft(storage: Storage, name: str, token: str) -> None:
    """Nothing is left of the draft of that checkpoint with that token, but what was committed."""
    storage.remove(draft_name(name, token))
    for file, made_by in _strays(storage, name):
        if made_by == token:
            _remove(storage, f"{name}/{file}")


def sweep_shards(storage: Storage, name: str, kept: Collection[str]) -> None:
    """The folder of a checkpoint has no other shards than these."""
    for entry in storage.entries(name):
        if _token(entry) is not None and entry not in kept:
            storage.remove(f"{name}/{entry}")


def _strays(storage: Storage, name: str) -> Iterator[tuple[str, str]]:
    """The shards in a folder that its manifest does not name, and their tokens; if it has no manifest, all with tokens.

    None if there is a manifest that cannot be read, for it may be of another version, and name them.
    """
    shards = [(entry, token) for entry in storage.entries(name) if (token := _token(entry)) is not None]
    try:
        kept = {shard.file for shard in read_manifest(storage, name, name).shards} if shards else set()
    except errors.NotFoundError:
        kept = {entry for entry, token in shards if not token}
    except _NOT_ONE:
        return
    yield from ((entry, token) for entry, token in shards if entry not in kept)


def _opened(path: str, files: Files) -> Checkpoint | None:
    try:
        return Checkpoint.open(path, files)
    except _NOT_ONE:
        return None


def _storage(directory: Path, files: Files) -> tuple[str, Storage]:
    """The directory's name, and what it has in it."""
    name = as_name(directory)
    given = name.rstrip("/") or name[:1] or "."
    return given, located(f"{given}/_", files)[0]
