"""What a saver restores, variable by variable: for those that were lost while others hold what is newer."""

from collections.abc import Collection, Mapping

from aioflow.files import Path, as_name
from aioflow.node import Operation
from aioflow.session import Session
from aioflow.train.saver import Saver


def restored_by(saver: Saver) -> Mapping[str, Operation]:
    """The operations that give variables what a checkpoint has, by the names of the variables' operations."""
    givers = [giver for giver in saver._nodes.restore.control_inputs if giver.type == "adopt_variable"]
    return {giver.inputs[0].op.name: giver for giver in givers}


async def restore_only(saver: Saver, session: Session, path: Path, names: Collection[str]) -> None:
    """These variables hold what the checkpoint has; the others stay as they are. Raises as `Saver.restore` does."""
    feeds, found = saver._nodes.feeds, restored_by(saver)
    await session.run([found[name] for name in names], {feeds.path: as_name(path), feeds.plain: False})


__all__ = ["restore_only", "restored_by"]
