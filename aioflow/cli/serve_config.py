"""What `aioflow serve` serves: the models and limits of its options, and those of a file that `--config` names.

The file is TOML, with the names of the Python API. What it does not say comes from the options.

    [limits]                                  # af.serving.Limits
    client_rate = 50

    [models.digits]
    directory = "digits"                      # from the folder of the file
    labels = {stable = 3, canary = 4}         # Models.add
    split = {stable = 0.9, canary = 0.1}      # Models.split
    batching = {max_rows = 32, priorities = 2, buckets = [16, 32]}  # af.serving.Batching
"""

import argparse
import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from aioflow import errors
from aioflow.serving.batching import Batching
from aioflow.serving.choice import check_shares
from aioflow.serving.limits import Limits

T = TypeVar("T", Batching, Limits)
_TABLES: Final = ("limits", "models")
_MODEL: Final = ("directory", "labels", "split", "batching")


class ModelConfig(NamedTuple):
    """A model, as `Models.add` and `Models.split` take it."""

    name: str
    directory: str
    labels: Mapping[str, int]
    split: Mapping[str, float]
    batching: Batching


class ServeConfig(NamedTuple):
    """What a server serves, and the bounds of its requests."""

    models: list[ModelConfig]
    limits: Limits


def read_config(options: argparse.Namespace) -> ServeConfig:
    """Return what the options and their file say.

    Raises:
        InvalidArgumentError: they contradict each other, or the file has a wrong name or value; the text says which.
        NotFoundError: there is no such file.
    """
    batching = Batching(max_rows=options.max_rows, max_delay=options.max_delay, max_waiting=options.max_waiting)
    limits = Limits(body=options.max_body << 20, requests=options.max_requests)
    models = [ModelConfig(name, directory, {}, {}, batching) for name, directory in options.model]
    if options.config is not None:
        file = _File(Path(options.config))
        limits = file.changed(limits, "limits", file.tables.get("limits", {}))
        models += file.models(batching)
    _check_names([model.name for model in models])
    return ServeConfig([_labelled(model, options.label) for model in models], limits)


def _check_names(names: list[str]) -> None:
    if not names:
        raise errors.InvalidArgumentError("there is nothing to serve: give --model NAME=DIR, or --config FILE")
    if len({*names}) < len(names):
        raise errors.InvalidArgumentError(f"a model is named twice: {', '.join(sorted(names))}")


def _labelled(model: ModelConfig, given: list[tuple[str, str, int]]) -> ModelConfig:
    """Return a model with its labels among those of the options, too."""
    return model._replace(
        labels={**model.labels, **{label: version for name, label, version in given if name == model.name}}
    )


class _File:
    """A file of TOML.

    Attributes:
        tables: its tables.
    """

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        try:
            self.tables: Final = tomllib.loads(path.read_text())
        except OSError as error:
            raise errors.NotFoundError(f"{path} cannot be read: {error.strerror or error}") from None
        except ValueError as error:
            raise self._wrong(f"it is no TOML, {error}") from None
        self._check_keys("the file", self.tables, _TABLES)

    def models(self, batching: Batching) -> list[ModelConfig]:
        """Return its models. What they do not say of batching is as given."""
        tables = self._table("models", self.tables.get("models", {}))
        return [self._model(name, self._table(f"models.{name}", table), batching) for name, table in tables.items()]

    def _model(self, name: str, table: Mapping[str, Any], batching: Batching) -> ModelConfig:
        where = f"models.{name}"
        self._check_keys(where, table, _MODEL)
        directory = table.get("directory")
        if not isinstance(directory, str) or not name or "/" in name:
            raise self._wrong(f'[{where}] must have a name without "/", and a directory of text, not {directory!r}')
        labels, split = (self._numbers(where, key, table) for key in ("labels", "split"))
        if not {*split} <= {*labels}:
            raise self._wrong(f"the split of [{where}] is among its labels, {[*labels]}, and not {[*split]}")
        try:
            check_shares(split)
        except ValueError as error:
            raise self._wrong(f"[{where}] {error}") from None
        changed = self.changed(batching, f"{where}.batching", table.get("batching", {}))
        return ModelConfig(name, str(self._path.parent / directory), labels, split, changed)

    def _numbers(self, where: str, key: str, table: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a table of numbers, those of versions or the shares of a split."""
        found, kinds = self._table(f"{where}.{key}", table.get(key, {})), (int,) if key == "labels" else (int, float)
        if any(isinstance(value, bool) or not isinstance(value, kinds) for value in found.values()):
            raise self._wrong(f"{key} of [{where}] must be numbers, not {found}")
        return found

    def changed(self, default: T, where: str, table: Any) -> T:
        """Return limits with the values of a table."""
        names = [field.name for field in dataclasses.fields(default)]
        self._check_keys(where, self._table(where, table), names)
        try:
            return dataclasses.replace(default, **table)
        except (TypeError, ValueError) as error:
            raise self._wrong(f"[{where}] {error}") from None

    def _table(self, where: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(f"{where} must be a table, not {value!r}")
        return value

    def _check_keys(self, where: str, table: Mapping[str, Any], names: "tuple[str, ...] | list[str]") -> None:
        strange = next((key for key in table if key not in names), None)
        if strange is not None:
            raise self._wrong(f"{where} has no {strange!r}; it may have {', '.join(names)}")

    def _wrong(self, problem: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(f"{self._path}: {problem}")
