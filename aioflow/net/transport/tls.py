"""TLS between tasks, each of which shows a certificate that the cluster's own authority signed.

A directory as `aioflow ca init DIR` makes it holds `ca.pem`, and `node.pem` with `node.key`, or others of that form.
"""

import os
import ssl
from pathlib import Path

from aioflow import errors
from aioflow.net.transport.credentials import check_private


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
