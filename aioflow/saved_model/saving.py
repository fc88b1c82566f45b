"""`save`: signatures of a graph, with the values of a session, in a directory."""

import asyncio
import functools
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aioflow.config import expect
from aioflow.files.filesystem import Path, as_name
from aioflow.files.threaded_write import write_on_thread
from aioflow.graph.operation import Operation, Tensor, items_of
from aioflow.saved_model.export import Exported, export, reads
from aioflow.saved_model.manifest import MOST_DIGITS, Manifest, NamedSignature, StoredRequest, check_asset_name
from aioflow.saved_model.reading import StoredModel
from aioflow.saved_model.signature import Signature, check_signatures
from aioflow.saved_model.tables import asset_names, exports
from aioflow.saved_model.warmup import WarmUpRequest
from aioflow.saved_model.writing import Content, check_free, write
from aioflow.session import Session
from aioflow.tensors.as_array import as_array
from aioflow.tensors.dtypes import Array
from aioflow.tensors.recursion import safe_repr

_log: Final = logging.getLogger("aioflow.saved_model")
_PATIENCE: Final = 10.0
"""Seconds within which a moment between steps must come, so that all values belong to one step."""


async def save(
    session: Session,
    directory: Path,
    signatures: Mapping[str, Signature],
    *,
    version: int | None = None,
    assets: Mapping[str, Path] | None = None,
    warmup: Sequence[WarmUpRequest] = (),
) -> str:
    """Save signatures of a graph, and the variables and tables that they need, in a new directory. Returns its path.

    The directory is there when all of it is on the disk, or not at all. The values of all variables belong to one
    moment between steps of the session: runs that change them wait until the values are taken.
    A vocabulary file that a lookup table reads becomes an asset. The elements of queues are not saved. Cancelling
    gives up the save, unless the directory is there already.

    Args:
        session: the session of the variables.
        directory: the new directory, on this machine, or a URL.
        signatures: functions of the model by name; the one that callers mean by default is `serving_default`.
        version: a number: the new directory is then `directory/version`, one of a served model.
        assets: files to put beside, by name.
        warmup: requests that a server runs before it makes the model available.

    Raises:
        TypeError, ValueError: the signatures belong to another graph than the session; or an operation exists in this
            process alone, as the function of a `py_func`; or a warm-up request does not fit its signature.
        AlreadyExistsError: there is something at that path.
        FailedPreconditionError: a variable has no value.
        PermissionDeniedError, ResourceExhaustedError: the directory may not be written, or the disk is full.

    Examples:
        >>> x = af.placeholder(af.float32, [None], name="x")
        >>> signature = af.saved_model.Signature(inputs={"x": x}, outputs={"y": 2 * x})
        >>> await af.saved_model.save(session, "models/double", {"serving_default": signature}, version=1)
        'models/double/1'
    """
    _check(session, signatures, version)
    path = as_name(directory).rstrip("/") + ("" if version is None else f"/{version}")
    expect("assets", assets, Mapping)
    requests = [_stored(number, request, signatures) for number, request in enumerate(items_of("warmup", warmup))]
    files = {check_asset_name(name): file for name, file in (assets or {}).items()}
    await asyncio.to_thread(check_free, path)
    exported = await asyncio.to_thread(export, signatures)
    vocabularies = asset_names(exported.vocabularies.values(), files)
    files |= {name: path for path, name in vocabularies.items()}
    graph = await asyncio.to_thread(exported.graph_def.to_msgpack)
    values = await _values(session, exported)
    manifest = _manifest(exported, signatures, vocabularies, [request for request, _ in requests])
    tensors = {name: value for _, values in requests for name, value in values.items()}
    content = Content(manifest, graph, values, tensors, files)
    await write_on_thread(path, functools.partial(write, path, content))
    return path


def _check(session: Any, signatures: Any, version: Any) -> None:
    if not isinstance(session, Session):
        raise TypeError(f"save needs an af.Session, not {safe_repr(session)}")
    check_signatures(session.graph, signatures)
    if version is not None and (type(version) is not int or not 0 <= version < 10**MOST_DIGITS):
        raise ValueError(f"a version is a number from 0 with {MOST_DIGITS} digits at most, not {safe_repr(version)}")


def _stored(number: int, request: Any, signatures: Mapping[str, Signature]) -> tuple[StoredRequest, dict[str, Array]]:
    """Return a warm-up request as it is stored, and its tensors by their names in the checkpoint."""
    if not isinstance(request, WarmUpRequest):
        raise TypeError(f"warm-up requests are af.saved_model.WarmUpRequest, not {safe_repr(request)}")
    signature = signatures.get(request.signature)
    if signature is None or request.inputs.keys() != signature.inputs.keys():
        expected = ", ".join(signatures) if signature is None else signature.describe()
        raise ValueError(
            f"warm-up request {number} has the inputs {', '.join(request.inputs) or 'none'} for "
            f"{request.signature!r}, where there is {expected}"
        )
    stored = StoredRequest(request.signature, sorted(request.inputs))
    values = {name: as_array(value, signature.inputs[name].dtype) for name, value in request.inputs.items()}
    for name, value in values.items():
        if not signature.inputs[name].shape.is_compatible_with(value.shape):
            spec = signature.inputs[name].spec
            raise ValueError(f"warm-up request {number} gives {name!r}, which is {spec}, shape {list(value.shape)}")
    return stored, {tensor: values[name] for name, tensor in stored.tensors(number).items()}


async def _values(session: Session, exported: Exported) -> dict[str, Array]:
    """Return the values of all variables, and the content of tables, at one moment."""
    found = contents(exported)
    async with session.boundary.between(handles(exported), _PATIENCE) as reached:
        if not reached:
            _log.warning("steps that change variables are never all done: a model is saved amid them")
        values: dict[str, Array] = await session.run(found)
    return values


def contents(exported: Exported) -> dict[str, Tensor]:
    """Return what is saved of variables and tables, by the names that it is stored under."""
    return {**reads(exported.variables), **exports(exported.tables)}


def handles(exported: Exported) -> frozenset[Operation]:
    """Return the handles of variables and tables, which steps may change."""
    return frozenset([*exported.variables.values(), *exported.tables.values()])


def stored_model(exported: Exported, signatures: Mapping[str, Signature], values: Mapping[str, Array]) -> StoredModel:
    """Return what `read` would find after a save with these values. Vocabulary files stay where they are."""
    files = {path: path for path in exported.vocabularies.values()}
    manifest = _manifest(exported, signatures, files, ())
    return StoredModel("a model in memory", manifest, exported.graph_def, values, (), {})


def _manifest(
    exported: Exported,
    signatures: Mapping[str, Signature],
    vocabularies: Mapping[str, str],
    requests: Sequence[StoredRequest],
) -> Manifest:
    named = {name: _named(signature, exported) for name, signature in signatures.items()}
    files = {constant: vocabularies[path] for constant, path in exported.vocabularies.items()}
    variables, trainable, tables = sorted(exported.variables), sorted(exported.trainable), sorted(exported.tables)
    return Manifest(time.time(), named, variables, trainable, {}, requests, tables, exported.initializers, files)


def _named(signature: Signature, exported: Exported) -> NamedSignature:
    inputs, outputs = (
        {name: exported.names[tensor] for name, tensor in tensors.items()}
        for tensors in (signature.inputs, signature.outputs)
    )
    return NamedSignature(inputs, outputs, signature.method, signature.repeat_while or "")
