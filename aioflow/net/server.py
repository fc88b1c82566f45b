"""One task of a cluster: a worker for the masters of all tasks, and a master for its clients.

`stop_servers` asks all tasks of a cluster to stop.
"""

import asyncio
import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from aioflow import errors
from aioflow.config import Config, expect
from aioflow.graph.op import REGISTRY
from aioflow.net.cluster import ClusterSpec, Member
from aioflow.net.config_messages import ConfigProto
from aioflow.net.config_of_message import config_of
from aioflow.net.master import master as masters
from aioflow.net.master.master import Master
from aioflow.net.peer.handshake import Acceptor, connect
from aioflow.net.peer.local_peer import LocalPeer
from aioflow.net.peer.peers import Peers
from aioflow.net.peer.serving import Call, Service
from aioflow.net.peer.statuses import AddressBook
from aioflow.net.transport.access import network_of_client
from aioflow.net.transport.addresses import join_address
from aioflow.net.transport.channel import Channel, Listener, Network, NotListeningError
from aioflow.net.wire.control_verbs import Reply
from aioflow.net.wire.identity import Identity, Settings
from aioflow.net.wire.worker_verbs import Stop
from aioflow.net.worker import step_table
from aioflow.net.worker import worker as workers
from aioflow.net.worker.worker import Worker
from aioflow.runtime.explain import explain, report_stall
from aioflow.runtime.session_state import SessionState
from aioflow.waiting.tasks import slice_of

_log: Final = logging.getLogger("aioflow.net")


class Server:
    """A task of a cluster; TensorFlow's `tf.train.Server`.

        async with af.train.Server({"worker": ["127.0.0.1:2222"]}, "worker", 0) as server:
            await server.join()

    While it is open, it runs partitions for masters, and any client may use it as its master:
    `af.Session(server.target)`. Variables and queues of the default container belong to it, and outlive sessions.

    An accepted peer may run any operation, within `Config(file_roots=)`, by default no file at all, and
    `Config(memory_limit=)`. So the server listens at an address that other machines can reach only if it requires a
    token, by `Config(token_file=)` or the variable AIOFLOW_TOKEN, or a certificate, by `Config(ssl=)`.

    Args:
        cluster: all tasks.
        job_name: the name of its job.
        task_index: its number in the job.
        config: its devices, threads, limits and credentials; also as a ConfigProto.
        py_funcs: the functions, by name, that `af.py_func` may call on this task.
        host: the host to listen at, such as "0.0.0.0", if it differs from the host in the cluster.
        network: the network of the cluster; websockets by default.
        settings: its settings for peers; by default those of `config`.

    Examples:
        >>> import socket
        >>> with socket.socket() as free:
        ...     free.bind(("localhost", 0))
        ...     address = f"localhost:{free.getsockname()[1]}"
        >>> async with af.train.Server({"local": [address]}, "local") as server:
        ...     async with af.Session(server.target) as remote:
        ...         print(await remote.run(af.constant(1) + 1))
        2
    """

    def __init__(
        self,
        cluster: ClusterSpec | Mapping[str, Any],
        job_name: str,
        task_index: int = 0,
        config: Config | ConfigProto | None = None,
        *,
        py_funcs: Mapping[str, Callable[..., Any]] | None = None,
        host: str | None = None,
        network: Network | None = None,
        settings: Settings | None = None,
    ) -> None:
        if isinstance(config, ConfigProto):
            config = config_of(config)
        expect("config", config, Config)
        REGISTRY.complete()  # now, so that no step waits for the import
        self.member: Final = Member(ClusterSpec(cluster), job_name, task_index)
        if network is None:
            self.member.cluster.check_addresses()
        self._address: Final = self.member.address
        self._book: Final = AddressBook(dict(self.member.cluster))
        self._host: Final = host
        self._config: Final = _confined(config or Config())
        self._py_funcs: Final = _checked(py_funcs or {})
        self._network: Final = network or _websockets(self._config)
        self._settings: Final = settings or Settings.of(self._config)
        self._open: contextlib.AsyncExitStack | None = None
        self._asked: Final = asyncio.Event()
        self._service: Final = Service(self.name)
        self._listener: Listener | None = None

    @property
    def name(self) -> str:
        """Its name, as `/job:worker/replica:0/task:1`."""
        return self.member.name

    @property
    def network(self) -> Network:
        """The network on which it reaches tasks, itself included."""
        return self._network

    @property
    def address(self) -> str:
        """Where it listens on that network."""
        return self._address if self._listener is None or self._host is not None else self._listener.address

    @property
    def target(self) -> str:
        """The target with which `af.Session` uses it as the master."""
        return f"{'ws' if self._config.ssl is None else 'wss'}://{self.address}"

    async def __aenter__(self) -> Self:
        """It listens.

        UnavailableError if it cannot, FailedPreconditionError if others could reach it and no credential is asked for.
        """
        if self._open is not None:
            raise RuntimeError("a server is entered once")
        async with contextlib.AsyncExitStack() as stack:
            await self._start(stack)
            self._open = stack.pop_all()
        return self

    async def _start(self, stack: contextlib.AsyncExitStack) -> None:
        state = SessionState(self._config, self.name, self._py_funcs)
        state.slice = slice_of(asyncio.get_running_loop())
        state.on_stall = functools.partial(_report_stall, state)
        stack.push_async_callback(state.close)
        spec = self.member.cluster
        identity = Identity(self.name, cluster=spec.digest)
        service = self._service
        peers = Peers(self._network, identity, self._book, LocalPeer(service), service, self._settings)
        self._worker = Worker(self.name, state, peers)
        self._master = Master(self._book, self._config, self._worker, peers)
        service.add(self, {Stop: Server._stop})
        service.add(self._worker, workers.HANDLERS, quick=workers.QUICK)
        service.add(self._worker.step_table, step_table.HANDLERS, step_table.NOTES, refused=step_table.REFUSED)
        service.add(self._master, masters.HANDLERS, masters.NOTES, masters.QUICK)
        peers.on_loss = self._worker.step_table.lost
        self._acceptor = Acceptor(
            identity, service, self._settings, peers.has_ended, network=self._network, begins=peers.drop_predecessors
        )
        stack.push_async_callback(peers.close, "it stops")
        self._listener = await self._network.listen(self._listening, self._accept)
        stack.push_async_callback(self._listener.close)
        stack.push_async_callback(self._end)

    @property
    def _listening(self) -> str:
        if self._host is None:
            return self._address
        return join_address(self._host, self._address.rpartition(":")[2])

    async def _end(self) -> None:
        """End running steps while their peers can still receive the error."""
        self._service.stop(Stop)
        self._asked.set()
        await self._worker.close()
        await self._acceptor.close("it stops")
        await self._master.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def join(self) -> None:
        """Return when this process or a peer asks the task to stop. Leave the block of the server then."""
        await self._asked.wait()

    def update_addresses(self, cluster: ClusterSpec | Mapping[str, Any], version: int) -> bool:
        """Take over the addresses of tasks that restarted elsewhere: this task dials them there from now on.

        Ignores a version that is not newer. Returns whether it was newer. ValueError if it is another cluster.
        """
        return self._book.update(dict(ClusterSpec(cluster)), version)

    def ask_to_stop(self) -> None:
        """Let `join` return. A signal handler may call this."""
        self._asked.set()

    async def stop(self) -> None:
        """End running steps with UnavailableError, say goodbye to all peers, release state and threads.

        May be called again.
        """
        stack, self._open = self._open, contextlib.AsyncExitStack()
        if stack is not None:
            await stack.aclose()
        self._asked.set()

    async def _accept(self, channel: Channel) -> None:
        try:
            await self._acceptor.accept(channel)
        finally:
            self._worker.forget_lost()
            await self._master.forget_lost()

    @property
    def worker(self) -> Worker:
        """The handler of requests from masters and other workers."""
        return self._worker

    @property
    def master(self) -> Master:
        """The handler of requests from clients."""
        return self._master

    async def _stop(self, call: Call) -> Reply:
        message: Any = call.message
        asker = "itself" if call.peer is None else call.peer.remote.label
        _log.info("%s is to stop: %s asks it to%s", self.name, asker, message.reason and f": {message.reason!r}")
        self.ask_to_stop()
        return Reply()

    def __repr__(self) -> str:
        return f"<af.train.Server {self.name} at {self._address}>"


def _report_stall(state: SessionState) -> None:
    report_stall(explain(state), state.config.stall_report or 0.0)


def _confined(config: Config) -> Config:
    """Return the configuration without access to files, unless it allows some."""
    return dataclasses.replace(config, file_roots=()) if config.file_roots is None else config


def _checked(py_funcs: Mapping[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    for name, function in py_funcs.items():
        if not isinstance(name, str) or not name or not callable(function):
            raise TypeError(f"py_funcs are functions by their names, not {function!r} by {name!r}")
    return dict(py_funcs)


def _websockets(config: Config) -> Network:
    from aioflow.net.transport.access import network_of_server

    return network_of_server(config)


async def stop_servers(
    cluster: ClusterSpec | Mapping[str, Any], config: Config | None = None, reason: str = ""
) -> None:
    """Ask all tasks of a cluster to stop: `Server.join` returns there.

    A task whose address has no listening process counts as stopped.

    Args:
        cluster: the tasks.
        config: credentials, and the time limit: `operation_timeout`, or else `close_timeout`.
        reason: the reason in the logs of the tasks.

    Raises:
        UnavailableError: some tasks, which the error names, could not be reached. All others were asked.

    Examples:
        >>> import socket
        >>> with socket.socket() as free:
        ...     free.bind(("localhost", 0))
        ...     cluster = {"local": [f"localhost:{free.getsockname()[1]}"]}
        >>> async with af.train.Server(cluster, "local") as server:
        ...     await af.train.stop_servers(cluster)
        ...     await server.join()
    """
    config = config or Config()
    network = network_of_client(config, config.ssl is not None)
    limit = config.close_timeout if config.operation_timeout is None else config.operation_timeout
    tasks = dict(ClusterSpec(cluster))
    asked = await asyncio.gather(*[_stop(network, *task, limit, reason) for task in tasks.items()])
    if absent := [text for text in asked if text]:
        raise errors.UnavailableError(f"of {len(tasks)} tasks {len(absent)} could not be asked: {'; '.join(absent)}")


async def _stop(network: Network, task: str, address: str, limit: float, reason: str) -> str:
    """Ask one task to stop. Returns a text about the failure, empty for success."""
    try:
        async with asyncio.timeout(limit):
            peer = await connect(network, address, Identity(), target=task)
            try:
                await peer.request(Stop(reason))
            finally:
                await peer.close()
    except errors.OpError as error:
        if isinstance(error.__cause__, NotListeningError):
            _log.warning("%s at %s is down already: no process listens there", task, address)
            return ""
        return f"{task} at {address}: {error.message}"
    except TimeoutError:
        return f"{task} at {address} did not answer within {limit:g} s"
    return ""
