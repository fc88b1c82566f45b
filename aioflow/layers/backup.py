"""Backups of `fit`: training that was interrupted goes on where it stopped, with the same numbers.

A backup is a checkpoint of all variables of the steps, those of metrics too, of the counts of random operations, and of
the position in the data, with the states of callbacks. The position is a variable itself, so that a backup has all or
nothing of them.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from aioflow import errors
from aioflow.checkpoint import Checkpoint, damaged_checkpoints, delete_checkpoint, list_checkpoints
from aioflow.layers.callbacks import BackupAndRestore
from aioflow.layers.training_state import decode, encode
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.tensors.dtypes import Array, string
from aioflow.train.saver import Saver

_POSITION: Final = "fit/position"
"""The name of the position in a backup."""
_NAME: Final = re.compile(r"/backup-\d+$")
"""The end of the path of a backup: the folder may have checkpoints of others."""


class Position(NamedTuple):
    """Where training stands.

    Attributes:
        epoch: the number of the epoch.
        batch: the number of its next batch.
        total: the sum of the losses of the elements of the epoch so far.
        elements: their number.
        data: the position of the batches, as plain data.
        validation: that of the batches for validation; None if there are none.
        callbacks: the states of the callbacks that have one, by the names of their classes.
    """

    epoch: int
    batch: int
    total: float
    elements: int
    data: Mapping[str, Any]
    validation: Mapping[str, Any] | None
    callbacks: Mapping[str, Sequence[Any]] = MappingProxyType({})


class Backup:
    """The last backup of a training, in the folder that the callback names."""

    def __init__(self, settings: BackupAndRestore) -> None:
        self._settings: Final = settings
        self._folder: Final = settings.backup_dir
        self._saved = 0
        self._kept: tuple[Sequence[Variable], Saver, Variable] | None = None

    def next_due(self, batch: int) -> int | None:
        """The first batch of an epoch, from this one on, before which a backup is due; None if none is."""
        every = self._settings.save_freq
        return None if isinstance(every, str) else max(1, -(-batch // every)) * every

    async def position(self) -> Position | None:
        """The position of the last backup; None if there is none. DataLossError if one is damaged."""
        await asyncio.to_thread(self._check_whole)
        text = await asyncio.to_thread(self._read, _POSITION)
        if text is None:
            return None
        try:
            return Position(**decode(text.item()))
        except (TypeError, ValueError):
            raise errors.DataLossError(f"the backup in {self._folder!r} has no position of a training") from None

    def _check_whole(self) -> None:
        """Raise DataLossError if a backup in the folder cannot be opened. Blocks."""
        damaged = damaged_checkpoints(self._folder, "backup")
        if damaged:
            raise errors.DataLossError(
                f"the backup {', '.join(map(repr, damaged))} is damaged or incomplete: delete it, and training begins "
                "anew, or at an older backup in the folder"
            )

    def _read(self, name: str) -> Array | None:
        """The value of that name in the last backup; None if there is none. Blocks."""
        paths = self._paths()
        return Checkpoint.open(paths[-1]).read(name) if paths else None

    def _paths(self) -> list[str]:
        """The paths of the backups in the folder, the newest one last. Blocks."""
        return [each.path for each in list_checkpoints(self._folder) if _NAME.search(each.path)]

    async def restore_early(self, variable: Variable, session: Session) -> None:
        """Give one variable the value of the last backup, before others are built.

        It builds no operation, for random operations that are built later would get other seeds.
        """
        value = await asyncio.to_thread(self._read, variable.op.name)
        if value is not None:
            await _assign(variable, value, session)

    async def restore(self, variables: Sequence[Variable], session: Session, kept: Variable | None) -> None:
        """Give the variables, but for `kept`, the values of the last backup. InvalidArgumentError if it has others."""
        paths, (saver, _) = await asyncio.to_thread(self._paths), self._saver(variables)
        if paths:
            value = None if kept is None else await session.run(kept)
            await saver.restore(session, paths[-1])
            if kept is not None:
                await _assign(kept, value, session)
            saver.recover_last_checkpoints(paths)
            self._saved = int(paths[-1].rsplit("-", 1)[-1])

    async def save(self, variables: Sequence[Variable], position: Position, session: Session) -> None:
        """Save a backup in place of the last one."""
        saver, variable = self._saver(variables)
        await _assign(variable, encode(position._asdict()), session)
        self._saved += 1
        await saver.save(session, f"{self._folder}/backup", self._saved)

    def _saver(self, variables: Sequence[Variable]) -> tuple[Saver, Variable]:
        """The saver of the variables and the position, and the variable with the position."""
        if self._kept is None or self._kept[0] is not variables:
            with variables[0].graph.as_default():
                position = Variable("", trainable=False, collections=[], name="fit_position", dtype=string)
                named = {**{each.op.name: each for each in variables}, _POSITION: position}
                self._kept = variables, Saver(named, max_to_keep=1, extra=False, state=True, name="backup"), position
        return self._kept[1:]

    async def end(self) -> None:
        """Delete it, if the callback says so: training has ended."""
        if self._settings.delete_checkpoint:
            await asyncio.to_thread(self._delete)

    def _delete(self) -> None:
        for path in self._paths():
            delete_checkpoint(path)


async def _assign(variable: Variable, value: Any, session: Session) -> None:
    await session.run(variable.initializer, {variable.initializer.inputs[1]: value})
