"""The checkpoint that a Saver is about to write: its path, its token, and the facts in its manifest."""

import json
import os
import secrets
from typing import Any, Final

import numpy as np

from aioflow.files.filesystem import Path, as_name
from aioflow.graph.operation import Tensor
from aioflow.library.variables import Variable
from aioflow.session import Session
from aioflow.train.saving import Feeds

live: Final[set[str]] = set()
"""The tokens of all drafts that this process writes."""
_PROCESS: Final = secrets.token_hex(8)


def owner() -> str:
    """The prefix of the draft tokens of this process. No other process has it, not even a fork of this one."""
    return f"{_PROCESS}-{os.getpid()}-"


class Draft:
    """A checkpoint to write.

    Attributes:
        path: its path.
        token: its unique token.
    """

    def __init__(self, path: str, token: str, facts: dict[str, Any]) -> None:
        self.path: Final = path
        self.token: Final = token
        self._facts = facts

    def feeds(self, given: Feeds) -> dict[Tensor, Any]:
        """Return the feeds of the steps that write it."""
        return {given.path: self.path, given.token: self.token, given.facts: json.dumps(self._facts)}


def checkpoint_path(save_path: Path, number: int | None, digits: int) -> str:
    """Return the path of the checkpoint of a step, whose number has as many digits or more."""
    name = as_name(save_path).rstrip("/")
    if not name:
        raise ValueError("a checkpoint needs a path such as 'run/model.ckpt'")
    return name if number is None else f"{name}-{number:0{digits}}"


async def step_number(session: Session, step: int | Variable | Tensor | None) -> int | None:
    """Return the number of the step that is given as one, or as a tensor or variable with it."""
    if step is None or isinstance(step, (int, np.integer)):
        return None if step is None else int(step)
    return int(await session.run(step))
