"""The options by which a command finds a running cluster, and shows it a credential."""

import argparse
from typing import TYPE_CHECKING, Final

from aioflow import errors
from aioflow.config import Config

if TYPE_CHECKING:
    from aioflow.net.transport.channel import Network

PATIENCE: Final = 10.0
"""Seconds in which a task must answer a command that asks once."""


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declare the address of the cluster, its token and its certificates."""
    parser.add_argument("target", metavar="TARGET", help="the address of any of its tasks, such as ws://host:port")
    parser.add_argument("--token-file", metavar="FILE", help="the token of the tasks; else AIOFLOW_TOKEN, if set")
    parser.add_argument("--tls", metavar="DIR", help="a directory of certificates; for a target wss://host:port")


def network_of_target(target: str, token_file: str | None, tls: str | None, other: str = "") -> "tuple[str, Network]":
    """Return the address of a target, and the network that leads there.

    Args:
        target: the address with its scheme.
        token_file: the file of the token; None for the one in AIOFLOW_TOKEN, if any.
        tls: a directory of certificates; None for the authorities of the machine.
        other: what else the target may be, for the error.

    Raises:
        InvalidArgumentError: the target is no address of a task, or has no TLS and comes with certificates.
    """
    from aioflow.net.transport.access import network_of_client

    scheme, separator, address = target.partition("://")
    if not separator or scheme not in ("ws", "wss") or not address:
        raise errors.InvalidArgumentError(f"target {target!r}: it must be the address of a task, ws://host:2222{other}")
    if tls is not None and scheme == "ws":
        raise errors.InvalidArgumentError(f"target {target!r}: --tls is for an address that begins with wss://")
    return address, network_of_client(Config(token_file=token_file, ssl=tls), scheme == "wss")
