"""Serves variables beside the session that trains them.

A graph beside that of the training has copies of what the signatures need, with variables of their own; queues and
other objects are those of the training. One copy serves. To publish, another one takes the present values of the
trained variables between two steps, and then serves in its turn. There are two, and further ones while requests use the
others.
"""

import asyncio
import dataclasses
from collections.abc import Mapping
from typing import Final

from aioflow.graph.operation import Operation
from aioflow.saved_model.signature import Signature
from aioflow.serving.graph_beside import GraphBeside
from aioflow.serving.loaded_replica import MakeRunners
from aioflow.serving.publication import MOST_VERSIONS, PATIENCE, Publication
from aioflow.serving.served_version import ServedVersion
from aioflow.serving.signature_runner import SignatureRunner
from aioflow.session import Session


@dataclasses.dataclass(slots=True)
class _Copy:
    """A copy of what the signatures need.

    Attributes:
        runners: its signatures.
        take: gives its variables the present values of the trained ones.
        version: the version that it serves, or served last.
    """

    runners: Mapping[str, SignatureRunner]
    take: list[Operation]
    version: ServedVersion | None = None


class LocalPublication(Publication):
    """The versions of a model, each in the session that trains it."""

    def __init__(
        self, name: str, session: Session, signatures: Mapping[str, Signature], every: int, make_runners: MakeRunners
    ) -> None:
        super().__init__(name, session, signatures, every)
        self._make_runners: Final = make_runners
        self._beside: GraphBeside | None = None
        self._copies: Final[list[_Copy]] = []

    async def _next_version(self, number: int) -> ServedVersion | None:
        copy = await self._unused_copy(number - 1)
        if copy is None or not await self._take(copy):
            return None
        copy.version = ServedVersion(self._name, number, copy.runners)
        return copy.version

    async def _unused_copy(self, last: int) -> _Copy | None:
        """Return a copy that no request uses, perhaps a new one; None if there are too many."""
        for copy in self._copies:
            if copy.version is None:
                return copy
            if copy.version.version != last and not copy.version.is_used:
                await copy.version.end()
                return copy
        if len(self._copies) == MOST_VERSIONS:
            self._note_full()
            return None
        return await self._build_copy()

    async def _take(self, copy: _Copy) -> bool:
        """Give a copy the present values. Returns whether it has them."""
        beside = await self._graph_beside()
        trained = frozenset((await self._export()).variables.values())
        async with self._session.boundary.between(trained, PATIENCE) as reached:
            if reached:
                await beside.session.run(copy.take)
                return True
        self._note_no_moment()
        return False

    async def _build_copy(self) -> _Copy:
        beside, name = await self._graph_beside(), f"published/{len(self._copies)}"
        signatures, take = await asyncio.to_thread(beside.add_copy, self._signatures, name)
        copy = _Copy(self._make_runners(signatures, beside.session), take)
        self._copies.append(copy)
        return copy

    async def _graph_beside(self) -> GraphBeside:
        if self._beside is None:
            self._beside = await GraphBeside.build(self._session, await self._export())
        return self._beside

    def _versions(self) -> list[ServedVersion]:
        return [copy.version for copy in self._copies if copy.version is not None]

    async def _end_versions(self) -> None:
        for version in self._versions():
            await version.end()
        if self._beside is not None:
            await self._beside.session.close()
