"""Examples written as JSON, as their bytes."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.kernel import NodeView
from aioflow.graph.op import op
from aioflow.kernels.data.example_wire import make_example
from aioflow.kernels.families import CPU, costs
from aioflow.tensors.dtypes import STRING, Array, Namespace, Spec
from aioflow.tensors.object_arrays import make_array, to_list

_INTS: Final = range(-(1 << 63), 1 << 63)
_WORDS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@op
def decode_json_example(json_examples: Spec) -> Spec:
    """Each example written as JSON, as the bytes that `parse_example` takes.

    `{"features": {"feature": {"label": {"int64List": {"value": ["7"]}}}}}` is one; there are `floatList` and, with
    base64 for its strings, `bytesList`. Names may also be written as `int64_list`.

    InvalidArgumentError for anything else.

    Examples:
        >>> text = '{"features": {"feature": {"age": {"int64List": {"value": ["7"]}}}}}'
        >>> example = af.decode_json_example(text)
        >>> await session.run(af.parse_single_example(example, {"age": af.FixedLenFeature([], af.int64)}))
        {'age': np.int64(7)}
    """
    return json_examples.only(STRING)


decode_json_example.no_gradient("text does not vary smoothly")
costs(decode_json_example, 1e6)


@decode_json_example.kernel(CPU, fresh=True, binds=True)
def _(xp: Namespace, node: NodeView) -> Callable[[Array], Array]:
    def decode(texts: Array) -> Array:
        given = np.asarray(texts, object)
        return make_array([_example(number, text) for number, text in enumerate(to_list(given))], given.shape)

    return decode


def _example(number: int, text: bytes) -> bytes:
    try:
        features = _member(json.loads(text), "features")
        named = _mapping(_member(features, "feature"), "feature")
        return make_example({name: _values(name, feature) for name, feature in named.items()})
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.InvalidArgumentError(f"string {number} is not an example in JSON: {error}") from None


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what!r} must be an object in braces")
    return value


def _member(value: Any, name: str, other: str = "") -> Any:
    """The only member of an object; None if the object is empty."""
    members = _mapping(value, "the whole")
    stray = members.keys() - {name, other}
    if stray:
        raise ValueError(f"{min(stray)!r} is found where {name!r} is expected")
    return members.get(name, members.get(other, {}))


def _values(name: str, feature: Any) -> Any:
    """The values of a feature; None if it has no kind."""
    if feature == {}:
        return None
    for kind, (dtype, convert) in _KINDS.items():
        other = kind.replace("List", "_list")
        if not _mapping(feature, name).keys() - {kind, other}:
            values = _member(_member(feature, kind, other), "value") or []
            if not isinstance(values, list):
                raise ValueError(f"the values of {name!r} must be an array in brackets")
            return make_array([convert(value) for value in values], dtype=dtype)
    raise ValueError(f"feature {name!r} has one of {', '.join(_KINDS)}")


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a base64 string")
    try:
        return base64.b64decode(value.replace("-", "+").replace("_", "/"), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{value[:40]!r} is not base64: {error}") from None


def _float(value: Any) -> float:
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def _integer(value: Any) -> int:
    number = int(value) if isinstance(value, str) else value
    if type(number) is not int or number not in _INTS:
        raise ValueError(f"{value!r} is not a 64-bit integer")
    return number


_KINDS: Final[dict[str, tuple[Any, Callable[[Any], Any]]]] = {
    "bytesList": (object, _text),
    "floatList": (np.float32, _float),
    "int64List": (np.int64, _integer),
}
