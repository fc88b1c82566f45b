"""Where the tasks of a cluster are: a book with a version, which the launcher that starts tasks again updates."""

from collections.abc import Iterator, Mapping
from typing import Final

from aioflow.net.addresses import split_address


class AddressBook(Mapping[str, str]):
    """The addresses of all tasks by their names, as of the newest version that is known here.

    Which tasks there are never changes, only where they are. Books may come late and in any order.

    Attributes:
        version: of what is known; 0 is what the task was started with.
    """

    def __init__(self, addresses: Mapping[str, str], version: int = 0) -> None:
        self.version = version
        self._addresses: Final = dict(addresses)

    def update(self, addresses: Mapping[str, str], version: int) -> bool:
        """Take over a newer version; an older one, or the same, is passed over. Returns whether it was newer.

        ValueError if it is of other tasks, and InvalidArgumentError if something in it is no address: then nothing
        has changed.
        """
        if addresses.keys() != self._addresses.keys():
            strange = ", ".join(sorted(addresses.keys() ^ self._addresses.keys()))
            raise ValueError(f"a book of addresses has the tasks of its cluster, no others; it differs in {strange}")
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


__all__ = ["AddressBook"]
