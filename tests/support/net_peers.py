"""Two tasks that know each other, over any network."""

import asyncio
import contextlib

import numpy as np

from aioflow import errors
from aioflow.net.peer.handshake import Acceptor, connect, refuse_all
from aioflow.net.wire.control_verbs import Reply
from aioflow.net.wire.identity import USUAL, Identity
from aioflow.net.wire.master_verbs import CloseSession
from aioflow.net.wire.worker_verbs import DeregisterGraph, GraphRan, RecvTensor, RunGraph, TensorSent
from aioflow.testing import Gate

PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:1"
SESSION = "0123456789abcdef" * 2


def tensor(nbytes, step=1):
    """A request for a value of so many bytes."""
    return RecvTensor(step, 0, ((0, nbytes),))


def feeding(value):
    """A request that carries a value, and is answered with its sum."""
    return RunGraph(SESSION, 1, 1, (value,))


class Service:
    """Answers requests: values of a size, sums of values, errors, and nothing until a gate is opened."""

    def __init__(self):
        self.calls = []
        self.ended = []
        self.gate = Gate()
        self.error = errors.DataLossError("a cause", op="add")

    async def __call__(self, call):
        self.calls.append(call)
        try:
            return await self.answer(call)
        finally:
            self.ended.append(call.number)

    async def answer(self, call):
        match call.message:
            case RecvTensor(keys=[(_, nbytes)]):
                return TensorSent((0,), (np.full(nbytes, call.message.step % 256, np.uint8),))
            case RunGraph(feeds=feeds):
                return GraphRan(tuple([np.sum(value, dtype=np.int64) for value in feeds]))
            case DeregisterGraph():
                await self.gate.wait()
                return Reply()
            case CloseSession():
                raise self.error
        raise errors.UnimplementedError(f"{type(call.message).__name__} is not served")


WAITING = DeregisterGraph(SESSION, 1)
FAILING = CloseSession(SESSION)


@contextlib.asynccontextmanager
async def meeting(near, far, address, service, settings=USUAL, mine=USUAL, handler=refuse_all, me=PS):
    """The peer that is dialled over the network `near`, and the one that the dialled task sees over `far`."""
    acceptor = Acceptor(Identity(WORKER), service, settings, network=far)
    listener = await far.listen(address, acceptor.accept)
    try:
        peer = await connect(near, listener.address, Identity(me), target=WORKER, handler=handler, settings=mine)
        (other,) = acceptor.peers.values()
        try:
            yield peer, other
        finally:
            await peer.close()
    finally:
        await acceptor.close()
        await listener.close()


async def outcome(task):
    return (await asyncio.gather(task, return_exceptions=True))[0]


def idle(peer):
    """Whether nothing of any request is left."""
    found = peer.statistics
    return (found.asked, found.serving, found.held, found.arriving) == (0, 0, 0, 0)
