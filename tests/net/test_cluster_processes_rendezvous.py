"""The rendezvous of a step over several tasks, over real sockets."""

import pytest

from aioflow.net.transport.websocket_server import WebSocketNetwork
from aioflow.net.wire.worker_verbs import GetStatus, RecvTensor, Status, TensorSent
from aioflow.net.worker.remote_rendezvous import RemoteRendezvous, keys_of, numbers_of
from tests.support.net_peers import PS, WORKER, meeting
from tests.support.rendezvous_contract import Ends, RendezvousTests

pytestmark = pytest.mark.sockets


class Sender:
    """What a task answers: the values of its rendezvous, and that it is there."""

    def __init__(self):
        self.rendezvous = RemoteRendezvous(WORKER, self.nothing)

    async def nothing(self, task, keys):
        raise AssertionError("the sender asks for nothing")

    async def __call__(self, call):
        if isinstance(call.message, GetStatus):
            return Status()
        found = await self.rendezvous.here.recv_any(keys_of(call.message.incarnation, call.message.keys))
        return TensorSent(*map(tuple, zip(*found, strict=True)))


class TestRemoteRendezvousOverWebSockets(RendezvousTests):
    @pytest.fixture
    async def peer(self):
        self.service = Sender()
        network = WebSocketNetwork()
        async with meeting(network, network, "127.0.0.1:0", self.service) as (self.peer, _):
            yield self.peer

    async def arrive(self):
        """What was asked before is with the other task, for what is asked next is answered; and the other way round."""
        await super().arrive()
        for _ in range(2):
            await self.peer.request(GetStatus())

    @pytest.fixture
    async def ends(self, peer):
        async def ask(task, keys):
            answer = await peer.request(RecvTensor(1, keys[0].edge.incarnation, tuple(map(numbers_of, keys))))
            return dict(zip(answer.places, answer.values, strict=True))

        receiver = RemoteRendezvous(PS, ask)
        yield Ends(self.service.rendezvous, receiver)
        receiver.close()
        self.service.rendezvous.close()
        await receiver.settled()
