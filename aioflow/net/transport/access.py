"""Makes the network of a server or a client from the credentials in a Config."""

import os
import ssl
from pathlib import Path
from typing import Final

from aioflow import errors
from aioflow.config import Config, Tls
from aioflow.net.transport.credentials import Token, client_tls, load_token, server_tls
from aioflow.net.transport.websocket_server import WebSocketNetwork

_NODE: Final = "node"


def network_of_server(config: Config, token: Token | None = None) -> WebSocketNetwork:
    """Return the network by which a task listens and dials other tasks.

    The token is that of `Config(token_file=)`, unless one is given.

    Raises:
        TypeError: `Config(ssl=)` has a context for only one of the two.
        FailedPreconditionError: its directory has no certificate that a task could show.
    """
    listening, dialling = _contexts(config.ssl)
    if dialling is not None and listening is None and isinstance(config.ssl, (str, os.PathLike)):
        folder = os.fspath(config.ssl)
        raise errors.FailedPreconditionError(
            f"{folder} has no {_NODE}.pem, which a task shows to others: copy it and {_NODE}.key there from where "
            f"the authority is, by which `aioflow ca issue DIR {_NODE} --host HOST` makes them"
        )
    if dialling is not None and listening is None:
        raise TypeError("a server listens and dials: ssl is a directory, or a pair of contexts for the two")
    return WebSocketNetwork(
        token or load_token(config.token_file), server_tls=listening, client_tls=dialling,
        shared_memory=config.shared_memory, busy_poll=config.busy_poll,
    )  # fmt: skip


def network_of_client(config: Config, secure: bool, token: Token | None = None) -> WebSocketNetwork:
    """Return the network by which a client dials. With `secure` it uses TLS.

    TLS trusts the authorities of the machine, unless `Config(ssl=)` has a context.

    The token is that of `Config(token_file=)`, unless one is given.

    ValueError if `secure` is false and `Config(ssl=)` is set.
    """
    if not secure and config.ssl is not None:
        raise ValueError("ssl is for a target that begins with wss://, and this one begins with ws://")
    _, dialling = _contexts(config.ssl)
    if secure and dialling is None:
        dialling = ssl.create_default_context()
    return WebSocketNetwork(
        token or load_token(config.token_file), client_tls=dialling, shared_memory=config.shared_memory, private=True,
        busy_poll=config.busy_poll,
    )  # fmt: skip


def _contexts(tls: "Tls | None") -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """Return the TLS contexts for listening and for dialling."""
    match tls:
        case None:
            return None, None
        case str() | os.PathLike():
            name = _NODE if (Path(tls) / f"{_NODE}.pem").exists() else None
            return None if name is None else server_tls(tls), client_tls(tls, name)
        case ssl.SSLContext():
            return None, tls
        case (ssl.SSLContext() as listening, ssl.SSLContext() as dialling):
            return listening, dialling
    raise TypeError(f"ssl is a directory, an SSLContext or a pair of them, not a {type(tls).__name__}")


def master_unreachable(address: str, error: errors.UnavailableError) -> errors.UnavailableError:
    """The error for a client without a time limit that cannot reach its master."""
    reason = error.message.removeprefix(f"{address} cannot be reached: ")
    return errors.UnavailableError(
        f"Cannot connect to the master at {address}: {reason}. Start it, or set Config(operation_timeout=) to wait for "
        "it."
    )


def too_late(text: str) -> errors.DeadlineExceededError:
    """Return the error with that text for a client whose time limit has expired, with advice."""
    return errors.DeadlineExceededError(
        f"{text}. Check that the master runs, or pass a larger limit as RunOptions(timeout=) or "
        "Config(operation_timeout=); session.explain() shows what the cluster waits for"
    )
