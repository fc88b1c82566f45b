"""The addresses of a cluster's tasks, with a version; the launcher sends a new version when a task restarts."""

from collections.abc import Iterator, Mapping
from typing import Final

from aioflow.net.transport.addresses import split_address


class AddressBook(Mapping[str, str]):
    """The addresses of all tasks by name, in the newest version known here.

    The tasks never change, only their addresses. Updates may arrive late and in any order.

    Attributes:
        version: the version of these addresses; 0 for those from the task's start.
    """

    def __init__(self, addresses: Mapping[str, str], version: int = 0) -> None:
        self.version: int = version
        self._addresses: Final = dict(addresses)

    def update(self, addresses: Mapping[str, str], version: int) -> bool:
        """Take over a newer version. Ignores an older or equal one. Returns whether it was newer.

        Raises ValueError if it has other tasks, and InvalidArgumentError if an address is malformed; then nothing
        changes.
        """
        if addresses.keys() != self._addresses.keys():
            strange = ", ".join(sorted(addresses.keys() ^ self._addresses.keys()))
            raise ValueError(f"new addresses must be those of the tasks of the cluster; they differ in {strange}")
        for address in addresses.values():
            split_address(address)
        if version <= self.version:
            return False
        self._addresses.update(addresses)
        self.version = version
        return True

    def __getitem__(self, task: str) -> str:
        return self._addresses[task]

    def __iter__(self) -> Iterator[str]:
        return iter(self._addresses)

    def __len__(self) -> int:
        return len(self._addresses)

    def __repr__(self) -> str:
        return f"<AddressBook version {self.version}: {self._addresses}>"
