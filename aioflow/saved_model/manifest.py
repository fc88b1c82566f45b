"""The manifest of a saved model: the file that makes a directory a saved model. It is written last.

    models/digits/3/
        variables/          a checkpoint
        warmup/             a checkpoint with the inputs of warm-up requests, if there are any
        assets/             files of the user, if there are any
        graph.msgpack       the operations
        saved_model.json    the manifest

    {"format": "aioflow saved model", "version": 1, "created": 1760000000.0,
     "signatures": {"serving_default": {"inputs": {"x": "images:0"}, "outputs": {"y": "softmax:0"}, "method": "predict",
                                        "repeat_while": ""}},
     "variables": ["w"], "trainable": ["w"], "files": {"graph.msgpack": [2140, 3735928559]},
     "warmup": [{"signature": "serving_default", "inputs": ["x"]}], "tables": ["counts"],
     "initializers": ["words_init"], "vocabularies": {"asset_filepath": "words.txt"}, "checksum": 1234567890}

A meta graph is a directory with `graph.msgpack` and `variables/`, which is empty. It has no signatures, but

     "meta": {"collections": {"variables": [{"variable": {"variable_name": "w:0", ...}}], ...}, "saver": {...}}

A file has its size and CRC-32. Everything in a manifest is checked, since it may come from elsewhere.
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow import errors
from aioflow.checkpoint import field, seal, unseal

MANIFEST: Final = "saved_model.json"
GRAPH: Final = "graph.msgpack"
VARIABLES: Final = "variables"
WARMUP: Final = "warmup"
ASSETS: Final = "assets"
FORMAT: Final = "aioflow saved model"
VERSION: Final = 1
MOST_DIGITS: Final = 18
"""Digits of the number of a version of a model, at most: servers keep it in 64 bits."""
_FILE: Final = re.compile(rf"{re.escape(GRAPH)}|{ASSETS}/[A-Za-z0-9_][A-Za-z0-9_.\-]{{0,200}}")


@dataclasses.dataclass(frozen=True, slots=True)
class NamedSignature:
    """A signature by names of tensors. See `Signature`; without a loop, `repeat_while` is empty."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    method: str
    repeat_while: str

    @classmethod
    def from_json(cls, data: Any) -> "NamedSignature":
        """Return the signature in plain data. DataLossError if the data is damaged."""
        inputs, outputs = (_names(field(data, kind, dict)) for kind in ("inputs", "outputs"))
        return cls(inputs, outputs, field(data, "method", str), field(data, "repeat_while", str))


@dataclasses.dataclass(frozen=True, slots=True)
class StoredRequest:
    """A warm-up request without its values: the signature, and the names of inputs."""

    signature: str
    inputs: Sequence[str]

    @classmethod
    def from_json(cls, data: Any) -> "StoredRequest":
        """Return the request in plain data. DataLossError if the data is damaged."""
        return cls(field(data, "signature", str), _texts(field(data, "inputs", list)))

    def tensors(self, number: int) -> dict[str, str]:
        """Return the tensor of each input in the checkpoint of warm-up requests, for the request of that number."""
        return {name: f"{number}/{name}" for name in self.inputs}


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """The parts of a saved model.

    Attributes:
        created: when it was saved, in seconds since 1970.
        signatures: its signatures by name.
        variables: the names of its variables.
        trainable: the names of those that optimizers change.
        files: the size and CRC-32 of each file that is not part of a checkpoint.
        warmup: its warm-up requests.
        tables: the names of its lookup tables that steps change. Their content is beside the values of variables.
        initializers: the names of the operations that give its other tables their content.
        vocabularies: the assets that these read, by the names of the constants with their paths.
        meta: the collections and the Saver of a meta graph, as plain data; None if this is none.
    """

    created: float
    signatures: Mapping[str, NamedSignature]
    variables: Sequence[str]
    trainable: Sequence[str]
    files: Mapping[str, tuple[int, int]]
    warmup: Sequence[StoredRequest]
    tables: Sequence[str] = ()
    initializers: Sequence[str] = ()
    vocabularies: Mapping[str, str] = dataclasses.field(default_factory=dict)
    meta: Mapping[str, Any] | None = None

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON."""
        return seal(FORMAT, VERSION, dataclasses.asdict(self))

    @classmethod
    def from_bytes(cls, file: str, text: bytes) -> "Manifest":
        """Return the manifest in `text`.

        DataLossError if it is damaged, UnimplementedError for another version, PermissionDeniedError if it names files
        elsewhere.
        """
        data = unseal(FORMAT, VERSION, file, text)
        signatures = field(data, "signatures", dict)
        meta = data.get("meta")
        if not signatures and not isinstance(meta, dict):
            raise errors.DataLossError(f"{file!r} is damaged: a saved model has a signature or more")
        return cls(
            field(data, "created", float),
            {name: NamedSignature.from_json(item) for name, item in signatures.items()},
            _texts(field(data, "variables", list)),
            _texts(field(data, "trainable", list)),
            _files(field(data, "files", dict)),
            [StoredRequest.from_json(item) for item in field(data, "warmup", list)],
            _texts(field({"tables": [], **data}, "tables", list)),
            _texts(field({"initializers": [], **data}, "initializers", list)),
            _names(field({"vocabularies": {}, **data}, "vocabularies", dict)),
            meta,
        )


def check_asset_name(name: object) -> str:
    """Return the name of an asset. InvalidArgumentError if it cannot be one."""
    if not isinstance(name, str) or not _FILE.fullmatch(f"{ASSETS}/{name}"):
        raise errors.InvalidArgumentError(
            f"{name!r} cannot be the name of an asset: use letters, digits and _ . - only"
        )
    return name


def _files(data: dict[str, Any]) -> dict[str, tuple[int, int]]:
    found = {}
    for name, numbers in data.items():
        if not _FILE.fullmatch(name):
            raise errors.PermissionDeniedError(f"a saved model names the file {name[:200]!r}; no such file is read")
        if type(numbers) is not list or list(map(type, numbers)) != [int, int]:
            raise errors.DataLossError(f"the file {name!r} of a saved model has no size and checksum")
        found[name] = (numbers[0], numbers[1])
    if GRAPH not in found:
        raise errors.DataLossError(f"a saved model names no file {GRAPH!r}")
    return found


def _names(data: dict[str, Any]) -> dict[str, str]:
    return {name: field(data, name, str) for name in data}


def _texts(data: list[Any]) -> list[str]:
    if not all(isinstance(text, str) for text in data):
        raise errors.DataLossError(f"names in the manifest of a saved model are texts, not {str(data)[:200]}")
    return data
