"""Serves variables on replicas in a cluster while they are trained elsewhere.

To publish, the present values of the variables are fetched between two steps, and loaded into a session of each replica
as those of a saved model are, without files. A replica whose task is lost loads the values of its version again.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from aioflow.saved_model.reading import StoredModel
from aioflow.saved_model.saving import handles, stored_model
from aioflow.saved_model.signature import Signature
from aioflow.serving.graph_beside import GraphBeside
from aioflow.serving.publication import MOST_VERSIONS, PATIENCE, Publication
from aioflow.serving.replica_loader import ReplicaLoader
from aioflow.serving.replica_set import UNREACHABLE
from aioflow.serving.served_version import Close, ServedVersion
from aioflow.session import Session

_log: Final = logging.getLogger("aioflow.serving")


class ReplicaPublication(Publication):
    """The versions of a model, each on replicas in a cluster."""

    def __init__(
        self, name: str, session: Session, signatures: Mapping[str, Signature], every: int, replicas: ReplicaLoader
    ) -> None:
        super().__init__(name, session, signatures, every)
        self._replicas: Final = replicas
        self._beside: GraphBeside | None = None
        self._closings: Final[dict[ServedVersion, Close]] = {}
        self._endings: Final[set[asyncio.Task[None]]] = set()

    async def _next_version(self, number: int) -> ServedVersion | None:
        if len(self._endings) >= MOST_VERSIONS - 1:
            self._note_full()
            return None
        stored = await self._stored()
        return None if stored is None else await self._loaded(number, stored)

    async def _stored(self) -> StoredModel | None:
        """Return the present values as a saved model in memory; None if steps never end."""
        exported = await self._export()
        if self._beside is None:
            self._beside = await GraphBeside.build(self._session, exported)
        async with self._session.boundary.between(handles(exported), PATIENCE) as reached:
            if reached:
                return stored_model(exported, self._signatures, await self._beside.session.run(self._beside.values))
        self._note_no_moment()
        return None

    async def _loaded(self, number: int, stored: StoredModel) -> ServedVersion | None:
        """Return the version on the replicas; None if there is an older one, and no replica can be reached."""
        try:
            version, close = await self._replicas.load(number, stored)
        except UNREACHABLE as error:
            if not self._number:
                raise
            _log.warning("model %r keeps its version, since no replica can be reached: %s", self._name, error.message)
            return None
        self._closings[version] = close
        return version

    def _serve(self, version: ServedVersion) -> None:
        last = [*self.choice.available.values()]
        super()._serve(version)
        for each in last:
            self._end(each)

    def _end(self, version: ServedVersion) -> None:
        """Close a version after its last request."""
        ending = asyncio.get_running_loop().create_task(version.end(self._closings[version]))
        self._endings.add(ending)

        def forget(_: object) -> None:
            self._endings.discard(ending)
            del self._closings[version]

        ending.add_done_callback(forget)

    def _versions(self) -> list[ServedVersion]:
        return [*self._closings]

    async def _end_versions(self) -> None:
        for version in self._versions():
            if version.state == "available":
                self._end(version)
        if self._endings:
            await asyncio.wait(self._endings)
        if self._beside is not None:
            await self._beside.session.close()
