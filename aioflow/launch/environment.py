"""The variables that an engine sets for a process, and the parts that engines with numbered processes share."""

from collections.abc import Mapping, Sequence
from typing import Final

from aioflow import errors
from aioflow.net.cluster import ClusterSpec, Member
from aioflow.net.transport.addresses import is_host, join_address
from aioflow.tensors.plain_data import summarise

PORT: Final = 2222
HOSTS: Final = "AIOFLOW_HOSTS"
DIGITS: Final = 18
"""The most digits of a number."""


class Environment:
    """Variables as text and as numbers.

    Args:
        variables: all variables.
        engine: the engine that should have set them, for errors.
    """

    def __init__(self, variables: Mapping[str, str], engine: str) -> None:
        self._variables: Final = variables
        self._engine: Final = engine

    def has(self, name: str) -> bool:
        """Whether the variable is set and not empty."""
        return bool(self._variables.get(name))

    def text(self, *names: str) -> str:
        """Return the first of these variables that is set. InvalidArgumentError if none is."""
        found = next(filter(self.has, names), None)
        if found is None:
            raise errors.InvalidArgumentError(f"{self._engine}: the variable {' or '.join(names)} is not set")
        return self._variables[found]

    def number(self, *names: str, below: int | None = None) -> int:
        """Return the first of these that is set. InvalidArgumentError if none is, or it is no number below `below`."""
        text = self.text(*names)
        fits = text.isascii() and text.isdecimal() and len(text) <= DIGITS
        if not fits or (below is not None and int(text) >= below):
            wanted = "a whole number" if below is None else f"a whole number below {below}"
            raise self.error(next(filter(self.has, names)), f"it must be {wanted}, not {summarise(text)}")
        return int(text)

    def number_or(self, default: int, name: str, below: int | None = None) -> int:
        """Return the number, or `default` if the variable is not set."""
        return self.number(name, below=below) if self.has(name) else default

    def error(self, name: str, text: str) -> errors.InvalidArgumentError:
        """Return the error for an invalid variable."""
        return errors.InvalidArgumentError(f"{self._engine}: {name}: {text}")

    def hosts(self, count: int, alone: str) -> list[str]:
        """Return the user's hosts in AIOFLOW_HOSTS, for engines that do not tell them; `alone` for a single host.

        InvalidArgumentError if their number is not the engine's.
        """
        if not self.has(HOSTS) and count == 1:
            return [alone]
        if not self.has(HOSTS):
            raise self.error(HOSTS, f"it is not set; set it to the names of the {count} hosts, in order")
        names = [name.strip() for name in self.text(HOSTS).split(",")]
        if len(names) != count:
            raise self.error(HOSTS, f"it lists {len(names)} hosts instead of {count}")
        for name in names:
            if not is_host(name):
                raise self.error(HOSTS, f"{summarise(name)} is not a host; write host1,host2")
        return names

    def ports(self, count: int = 1, default: int = PORT) -> int:
        """Return the port of the first of `count` processes on a host; the others have the following ports."""
        port = self.number_or(default, "AIOFLOW_PORT", below=65536)
        if port == 0:
            raise self.error("AIOFLOW_PORT", "it must be 1 or more: other processes have to know the port")
        if port + count > 65536:
            raise self.error("AIOFLOW_PORT", f"{port} leaves no ports for {count} processes on a host")
        return port

    def member(self, addresses: Sequence[str], rank: int) -> Member:
        """Return the process of that number. The first AIOFLOW_PS processes, if set, are `ps`, the others `worker`."""
        ps = self.number_or(0, "AIOFLOW_PS", below=len(addresses))
        jobs = {"ps": addresses[:ps], "worker": addresses[ps:]} if ps else {"worker": addresses}
        try:
            cluster = ClusterSpec(jobs)
            cluster.check_addresses()
        except ValueError as error:
            raise errors.InvalidArgumentError(f"{self._engine}: {error}") from None
        return Member(cluster, "ps", rank) if rank < ps else Member(cluster, "worker", rank - ps)


def addresses_by_host(hosts: Sequence[str], counts: Sequence[int], port: int) -> list[str]:
    """Return the addresses of `counts` processes on each host, host by host."""
    return [
        join_address(host, port + local) for host, count in zip(hosts, counts, strict=True) for local in range(count)
    ]  # fmt: skip
