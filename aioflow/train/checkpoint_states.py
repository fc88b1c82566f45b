"""The file `checkpoint` of a directory of checkpoints, in TensorFlow's form, and the times and removal of checkpoints.

A Saver keeps the file up to date. `latest_checkpoint` does not need it: the checkpoints in the directory decide. These
functions block: call them on a thread.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint import Checkpoint, delete_checkpoint
from aioflow.files.filesystem import FILES, Path, as_name
from aioflow.files.gfile import rmtree
from aioflow.saved_model.reading import is_complete
from aioflow.train.checkpoint_messages import CheckpointState

_FILE: Final = "checkpoint"
_LINE: Final = re.compile(r'\s*(\w+)\s*:\s*("(?:[^"\\]|\\.)*"|[-+.\w]+)\s*')


def get_checkpoint_state(checkpoint_dir: Path, latest_filename: str | None = None) -> CheckpointState | None:
    """Return what the file `checkpoint` of a directory says, with whole paths; None if there is no such file.

    Args:
        checkpoint_dir: the directory.
        latest_filename: another name of the file.

    Raises:
        ValueError: the file is damaged, or names no newest checkpoint.

    Examples:
        >>> state = af.Variable(7)
        >>> await session.run(state.initializer)
        >>> path = await af.train.Saver().save(session, "states/model", 100)
        >>> af.train.get_checkpoint_state("states").model_checkpoint_path
        'states/model-100'
    """
    folder = as_name(checkpoint_dir)
    file = os.path.join(folder, latest_filename or _FILE)
    try:
        text = FILES.read(file).decode()
    except errors.NotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ValueError(f"{file!r} is damaged: {error}") from None
    found = CheckpointState()
    for line in filter(str.strip, text.splitlines()):
        _take(found, line, file)
    if not found.model_checkpoint_path:
        raise ValueError(f"{file!r} names no newest checkpoint")
    found.model_checkpoint_path = os.path.join(folder, found.model_checkpoint_path)
    found.all_model_checkpoint_paths = [os.path.join(folder, path) for path in found.all_model_checkpoint_paths]
    return found


def _take(state: CheckpointState, line: str, file: str) -> None:
    """Read a line into the state."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"{file!r} is damaged: {line[:200]!r}")
    field = state.FIELDS.get(match[1])
    if field is None:  # of a later version
        return
    try:
        value: Any = json.loads(match[2]) if field.kind == "string" else float(match[2])
    except ValueError as error:
        raise ValueError(f"{file!r} is damaged: {error}") from None
    if field.repeated:
        getattr(state, match[1]).append(value)
    else:
        setattr(state, match[1], value)


def generate_checkpoint_state_proto(
    save_dir: Path,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> CheckpointState:
    """Return the state of a directory of checkpoints. Relative paths are then relative to the directory.

    Args:
        save_dir: the directory.
        model_checkpoint_path: the newest checkpoint.
        all_model_checkpoint_paths: all checkpoints, oldest first; the newest is added if it is missing.
        all_model_checkpoint_timestamps: when each was saved, in seconds since 1970.
        last_preserved_timestamp: when the last checkpoint was saved that stays for ever.

    Raises:
        ValueError: the numbers of paths and times differ.

    Examples:
        >>> af.train.generate_checkpoint_state_proto("run", "run/model-2").all_model_checkpoint_paths
        ['model-2']
    """
    paths = list(all_model_checkpoint_paths or ())
    times = None if all_model_checkpoint_timestamps is None else list(all_model_checkpoint_timestamps)
    if times is not None and len(times) != len(paths):
        raise ValueError(f"{len(times)} times were given for {len(paths)} checkpoints")
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
        times = None if times is None else [*times, 0.0]
    newest, *others = [_inside(as_name(save_dir), path) for path in (model_checkpoint_path, *paths)]
    return CheckpointState(newest, others, times, last_preserved_timestamp)


def _inside(folder: str, path: str) -> str:
    return path if os.path.isabs(path) or "://" in path else os.path.relpath(path, folder)


def update_checkpoint_state(
    save_dir: Path,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> None:
    """Write the file `checkpoint` of a directory; see `generate_checkpoint_state_proto`.

    A later Saver counts the checkpoints in it to those that may be deleted. `latest_checkpoint` does not read it unless
    it is told its name.

    RuntimeError if a checkpoint has the name of the file.

    Examples:
        >>> af.train.update_checkpoint_state("listed", "listed/model-2", ["listed/model-1", "listed/model-2"])
        >>> af.train.get_checkpoint_state("listed").all_model_checkpoint_paths
        ['listed/model-1', 'listed/model-2']
    """
    file = os.path.join(as_name(save_dir), latest_filename or _FILE)
    if file in (model_checkpoint_path, *(all_model_checkpoint_paths or ())):
        raise RuntimeError(f"the checkpoint {file!r} has the name of the file that lists the checkpoints")
    state = generate_checkpoint_state_proto(
        save_dir, model_checkpoint_path, all_model_checkpoint_paths, all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )  # fmt: skip
    FILES.write(file, "".join(f"{line}\n" for line in _lines(state)).encode())


def _lines(state: CheckpointState) -> Iterator[str]:
    for name, field in state.FIELDS.items():
        values = getattr(state, name) if field.repeated else [getattr(state, name)] if state.HasField(name) else []
        for value in values:
            yield f"{name}: {json.dumps(value)}"


def get_checkpoint_mtimes(checkpoint_prefixes: Iterable[Path]) -> list[float]:
    """Return when each of these checkpoints was saved, in seconds since 1970, without those that are not there.

    Examples:
        >>> af.train.get_checkpoint_mtimes(["run/missing"])
        []
    """
    found = []
    for path in checkpoint_prefixes:
        with contextlib.suppress(errors.NotFoundError):
            found.append(Checkpoint.open(path).created)
    return found


def remove_checkpoint(
    checkpoint_prefix: Path, checkpoint_format_version: int = 2, meta_graph_suffix: str = "meta"
) -> None:
    """Delete the checkpoint at that path, and the meta graph beside it, `path.meta`. Does nothing if there is none.

    Args:
        checkpoint_prefix: the path.
        checkpoint_format_version: for compatibility: there is one format.
        meta_graph_suffix: the last part of the name of the meta graph.

    Examples:
        >>> state = af.Variable(7)
        >>> await session.run(state.initializer)
        >>> path = await af.train.Saver().save(session, "old/model", 1)
        >>> af.train.remove_checkpoint(path)
        >>> af.train.checkpoint_exists(path)
        False
    """
    delete_checkpoint(checkpoint_prefix)
    beside = f"{as_name(checkpoint_prefix).rstrip('/')}.{meta_graph_suffix}"
    if is_complete(beside):
        rmtree(beside)
