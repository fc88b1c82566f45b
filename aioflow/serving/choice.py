"""Which version of a model a request gets: the one it names, one that a traffic split draws, or the newest."""

import random
from collections.abc import Mapping
from typing import Final

from aioflow import errors
from aioflow.serving.served_version import ServedVersion
from aioflow.tensors.recursion import safe_repr


def check_labels(labels: object) -> None:
    """Raise TypeError unless these are numbers of versions by label."""
    pairs = [*labels.items()] if isinstance(labels, Mapping) else [(None, None)]
    if not all(isinstance(label, str) and label and type(version) is int for label, version in pairs):
        raise TypeError(f"labels are numbers of versions by label, as {{'stable': 1}}, not {safe_repr(labels)}")


def check_shares(shares: Mapping[str, float]) -> None:
    """Raise TypeError if shares of a traffic split are no numbers by label.

    ValueError if one is negative or not finite, or all are 0.
    """
    if not isinstance(shares, Mapping) or not all(isinstance(share, (int, float)) for share in shares.values()):
        raise TypeError(f"shares of a split are numbers by label, as {{'stable': 0.9}}, not {safe_repr(shares)}")
    if shares and (not all(0 <= share < float("inf") for share in shares.values()) or not any(shares.values())):
        raise ValueError(f"shares of a split are at least 0, and not all 0: {dict(shares)}")


class VersionChoice:
    """The available versions of a model, its labels, and its traffic split. Changes at once, without waiting.

    Attributes:
        available: the versions by number.
        newest: the number of the version for requests that name none; None before there is one.
        labels: numbers of versions by label.
        shares: the parts of the traffic split by label; empty without one.
    """

    def __init__(self, name: str, chooser: random.Random) -> None:
        self.available: Final[dict[int, ServedVersion]] = {}
        self.newest: int | None = None
        self.labels: Final[dict[str, int]] = {}
        self.shares: Mapping[str, float] = {}
        self._name: Final = name
        self._chooser: Final = chooser

    @property
    def ready(self) -> bool:
        """Whether the newest version can run requests."""
        newest = None if self.newest is None else self.available.get(self.newest)
        return newest is not None and newest.ready

    def find(self, version: int | None, label: str | None) -> ServedVersion:
        """Return a version. See `Models.find`."""
        if type(version) is not int and version is not None:
            raise TypeError(f"a version is a whole number, not {safe_repr(version)}")
        if version is not None and label is not None:
            raise errors.InvalidArgumentError(f"a request names a version or a label, not both: {version}, {label!r}")
        if version is None and label is None and self.shares:
            label = self._chooser.choices(list(self.shares), list(self.shares.values()))[0]
        if label is not None:
            version = self._labelled(label)
        if version is None:
            version = self.newest
        if version is None:
            raise errors.UnavailableError(f"model {self._name!r} has no version that is available yet: try again later")
        return self._numbered(version)

    def _labelled(self, label: str) -> int:
        if label not in self.labels:
            raise errors.NotFoundError(
                f"model {self._name!r} has no label {label!r}; its labels: {', '.join(self.labels) or 'none'}"
            )
        return self.labels[label]

    def _numbered(self, version: int) -> ServedVersion:
        found = self.available.get(version)
        if found is None:
            there = ", ".join(map(str, sorted(self.available))) or "none"
            raise errors.NotFoundError(f"model {self._name!r} has no version {version}; available: {there}")
        return found

    def split(self, shares: Mapping[str, float]) -> None:
        """Divide requests without version and label among labels; an empty mapping ends the split.

        NotFoundError if there is no such label, ValueError if a share is negative, not finite, or all are 0.
        """
        check_shares(shares)
        for label in shares:
            self._labelled(label)
        self.shares = dict(shares)

    def set_label(self, label: str, version: int | None) -> None:
        """Let a label name an available version, or none. FailedPreconditionError if the split uses a removed label."""
        if version is not None:
            self._numbered(version)
            self.labels[label] = version
        elif label in self.shares:
            raise errors.FailedPreconditionError(f"the traffic split of model {self._name!r} uses the label {label!r}")
        else:
            self._labelled(label)
            del self.labels[label]

    def labels_of(self, version: int) -> tuple[str, ...]:
        """Return the labels that name a version, sorted."""
        return tuple(sorted(label for label, named in self.labels.items() if named == version))
