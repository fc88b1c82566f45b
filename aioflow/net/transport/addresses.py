"""`host:port`, as tasks are known on a network; an IPv6 address stands in brackets."""

import re
from typing import Final

from aioflow import errors

_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[\w.-]+):(\d{1,5})", re.ASCII)


def split_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`, an IPv6 address in brackets. InvalidArgumentError if it is something else."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[2]) > 65535:
        raise errors.InvalidArgumentError(f"{address[:200]!r} is not an address; write host:port")
    return match[1].strip("[]"), int(match[2])


def is_host(host: str) -> bool:
    """Whether it can stand in an address: a name, or an IP address."""
    try:
        split_address(join_address(host, 1))
    except errors.InvalidArgumentError:
        return False
    return True


def join_address(host: str, port: int | str) -> str:
    """Return `host:port`, with brackets around an IPv6 address without them."""
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
