"""The master's access to the live queues of a session, each on the task of its handle."""

import secrets
from typing import TYPE_CHECKING, Any, Final

from aioflow import errors
from aioflow.graph.graphdef import GraphDef, node_def
from aioflow.net.master.doubts import Doubt
from aioflow.net.wire.worker_verbs import QueueServed, ServeQueue
from aioflow.net.worker.queue_service import STEPS
from aioflow.net.worker.remote_rendezvous import task_of
from aioflow.plan.pipeline import make_flow

if TYPE_CHECKING:
    from aioflow.net.master.session import MasterSession


class MasterQueues:
    """The live queues of one session."""

    def __init__(self, session: "MasterSession") -> None:
        self._session: Final = session
        self._found: Final[dict[str, tuple[str, bytes]]] = {}

    async def use(self, message: Any, deadline: float | None) -> QueueServed:
        """Do an action on the live queue of a handle."""
        found = self._found.get(message.handle)
        if found is None:
            found = self._found[message.handle] = await self._place(message.handle)
        task, handle = found
        if message.action in STEPS:
            return await self._step(task, handle, message, deadline)
        asked = ServeQueue(handle, message.action, message.values, message.number, message.option)
        served: QueueServed = await self._session.ask(task, asked, deadline)
        return served

    async def _step(self, task: str, handle: bytes, message: Any, deadline: float | None) -> QueueServed:
        """Take or put elements, in a step of its own."""
        session, doubt = self._session, Doubt(secrets.randbits(64), (task,), message.action == "take")
        asked = ServeQueue(handle, message.action, message.values, message.number, message.option, doubt.step)
        try:
            with session.doubts.running(message.token, doubt):
                served: QueueServed = await session.ask(task, asked, deadline)
        except BaseException:
            session.settle(doubt, False)
            raise
        session.in_doubt(message.token, doubt)
        return served

    async def _place(self, name: str) -> tuple[str, bytes]:
        """The task of a handle, and the handle in the form for that task."""
        session = self._session
        signature = session.signature((), (), (name,))
        flow = make_flow(signature, session.config.optimize)
        parts = await session.work(lambda: session.placer.split(flow))
        device = next((p.device for p in parts for node in p.flow.nodes if node.name == name), None)
        if device is None:
            raise errors.InvalidArgumentError(f"{name!r} is no handle of a queue")
        return task_of(device), GraphDef((node_def(signature.targets[0]),)).to_msgpack()


__all__ = ["MasterQueues"]
