"""The master's access to the live queues of a session, each on the task of its handle."""

import secrets
from typing import Any

from aioflow import errors
from aioflow.graph.graphdef import GraphDef, node_def
from aioflow.net.master.doubts import Doubt
from aioflow.net.master.session import MasterSession
from aioflow.net.wire.worker_verbs import QueueServed, ServeQueue
from aioflow.net.worker.queue_service import STEPS
from aioflow.net.worker.remote_rendezvous import task_of
from aioflow.plan.pipeline import make_flow


async def use_queue(session: MasterSession, message: Any, deadline: float | None) -> QueueServed:
    """Do an action on the live queue of a handle, on the task that holds the queue."""
    found = session.queues.get(message.handle)
    if found is None:
        found = session.queues[message.handle] = await _place(session, message.handle)
    task, handle = found
    if message.action in STEPS:
        return await _step(session, task, handle, message, deadline)
    asked = ServeQueue(handle, message.action, message.values, message.number, message.option)
    served: QueueServed = await session.ask(task, asked, deadline)
    return served


async def _step(session: MasterSession, task: str, handle: bytes, message: Any, deadline: float | None) -> QueueServed:
    """Take or put elements in one step."""
    doubt = Doubt(secrets.randbits(64), (task,), message.action == "take")
    asked = ServeQueue(handle, message.action, message.values, message.number, message.option, doubt.step)
    try:
        with session.doubts.running(message.token, doubt):
            served: QueueServed = await session.ask(task, asked, deadline)
    except BaseException:
        session.settle(doubt, False)
        raise
    session.in_doubt(message.token, doubt)
    return served


async def _place(session: MasterSession, name: str) -> tuple[str, bytes]:
    """The task of a handle, and the handle in the form for that task."""
    signature = session.signature((), (), (name,))
    flow = make_flow(signature, session.config.optimize)
    parts = await session.work(lambda: session.placer.split(flow))
    device = next((p.device for p in parts for node in p.flow.nodes if node.name == name), None)
    if device is None:
        raise errors.InvalidArgumentError(f"{name!r} is not the handle of a queue")
    return task_of(device), GraphDef((node_def(signature.targets[0]),)).to_msgpack()
