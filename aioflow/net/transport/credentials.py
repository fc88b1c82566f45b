"""Credentials: a task accepts a connection with its token, or with a certificate signed by its authority.

An accepted peer may run any operation, within the file roots and memory limits of the task: that is the trust
boundary. So a task that other machines can reach must ask for one of the two.

TLS between tasks, each of which shows a certificate that the cluster's own authority signed.

A directory as `aioflow ca init DIR` makes it holds `ca.pem`, and `node.pem` with `node.key`, or others of that form.
"""

import hmac
import ipaddress
import os
import ssl
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aioflow import errors

VARIABLE: Final = "AIOFLOW_TOKEN"
SHORTEST: Final = 16


class Token:
    """A secret that tasks share. It is shown in the upgrade request and nowhere else, not in a log nor an error."""

    __slots__ = ("_secret",)

    def __init__(self, secret: str) -> None:
        """InvalidArgumentError if it is too short, or cannot stand in a header."""
        if not isinstance(secret, str):
            raise TypeError(f"a token is a str, not a value of type {type(secret).__name__}")
        if len(secret) < SHORTEST or not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise errors.InvalidArgumentError(
                f"a token has at least {SHORTEST} printable ASCII characters and no spaces; this one has {len(secret)}"
            )
        self._secret: Final = f"Bearer {secret}".encode()

    def header(self) -> str:
        """The value of the header `Authorization`."""
        return self._secret.decode()

    def matches(self, header: str) -> bool:
        """Whether a header shows it. Takes the same time wherever it differs."""
        return hmac.compare_digest(self._secret, header.encode(errors="surrogateescape"))

    def key(self, purpose: str) -> str:
        """A key for that purpose, in hex. It does not reveal the token."""
        return hmac.new(self._secret, purpose.encode(), "sha256").hexdigest()

    def __repr__(self) -> str:
        return "<Token>"

    def __reduce__(self) -> str:
        raise TypeError("a token is not copied to where it might be read")


def load_token(path: str | os.PathLike[str] | None = None, environment: Mapping[str, str] = os.environ) -> Token | None:
    """Return the token in a file, or else in the variable AIOFLOW_TOKEN; None if there is neither.

    Raises:
        NotFoundError: there is no such file.
        PermissionDeniedError: the file belongs to this user, and other users can read or change it.
        InvalidArgumentError: the text is not a token. The error names the file or the variable.
    """
    if path is None:
        secret = environment.get(VARIABLE, "").strip()
        return _token(secret, VARIABLE) if secret else None
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            check_private(f"the token file {os.fspath(path)}", os.fstat(file.fileno()))
            secret = file.read(4097).strip()
    except OSError as error:
        raise errors.NotFoundError(f"the token file {os.fspath(path)} cannot be read: {error.strerror}") from None
    return _token(secret, f"the token file {os.fspath(path)}")


def check_private(file: str, status: os.stat_result) -> None:
    """Raise PermissionDeniedError if this user owns a file with a secret and other users can access it, like ssh.

    The owner of a mounted secret is another user, and the check does not apply. Windows has no such permissions.
    """
    if sys.platform != "win32" and status.st_uid == os.geteuid() and status.st_mode & 0o077:
        mode = stat.S_IMODE(status.st_mode)
        raise errors.PermissionDeniedError(f"{file} is open to other users (mode {mode:04o}): chmod 600 it")


def _token(secret: str, where: str) -> Token:
    try:
        return Token(secret)
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError(f"{where}: {error}") from None


def check_binding(host: str, token: Token | None, tls: ssl.SSLContext | None) -> None:
    """FailedPreconditionError if others could reach that address, and nothing is asked of them."""
    if token is None and (tls is None or tls.verify_mode is not ssl.CERT_REQUIRED) and not is_loopback(host):
        raise errors.FailedPreconditionError(
            f"{host or 'every address'} can be reached from other machines, and clients need no credential: set a "
            f"token by --token-file or {VARIABLE}, or use mutual TLS, or bind 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether an address is of this machine alone. A name other than localhost is taken to be known to others."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def server_tls(directory: str | os.PathLike[str], name: str = "node", *, mutual: bool = True) -> ssl.SSLContext:
    """Return the context of a listening task. With `mutual`, the dialling task must show a certificate, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _prepare(context, Path(directory), name)
    if mutual:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_tls(directory: str | os.PathLike[str], name: str | None = "node") -> ssl.SSLContext:
    """Return the context for dialling. With `name` None it has no certificate of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _prepare(context, Path(directory), name)
    return context


def _prepare(context: ssl.SSLContext, directory: Path, name: str | None) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(directory / "ca.pem")
        if name is not None:
            check_private(f"the key {directory / name}.key", os.stat(directory / f"{name}.key"))
            context.load_cert_chain(directory / f"{name}.pem", directory / f"{name}.key")
    except (OSError, ssl.SSLError) as error:
        text = f"the certificates in {directory} cannot be used: {error.strerror or error}"
        raise errors.FailedPreconditionError(text) from None
