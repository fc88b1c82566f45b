"""Parses JSON of a request: every key of an object once, and a depth that Python can hold."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from aioflow import errors
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.limits import Limits
from aioflow.tensors.recursion import short_repr


def parse_object(text: memoryview, limits: Limits) -> Mapping[str, Any]:
    """Return the object of JSON in a text. NaN, Infinity and -Infinity are numbers, as in TensorFlow Serving.

    Raises:
        RequestRefusedError: the text is longer than the limit.
        InvalidArgumentError: it is no JSON object, has a key twice, or is nested too deep.
    """
    if len(text) > limits.json:
        hint = "send the tensors as binary ones"
        raise RequestRefusedError(413, f"the JSON has {len(text)} bytes; at most {limits.json} are taken: {hint}")
    try:
        value = _DECODER.decode(str(text, "utf-8"))
    except RecursionError:
        raise errors.InvalidArgumentError("the JSON is nested too deep") from None
    except ValueError as error:  # also of UTF-8, and of numbers with thousands of digits
        raise errors.InvalidArgumentError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise errors.InvalidArgumentError(f"the JSON must be an object, not {short_repr(value)}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter([name for name, _ in pairs])
        twice = next(name for name, count in counts.items() if count > 1)
        raise errors.InvalidArgumentError(f"the JSON has {short_repr(twice)} twice in one object")
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)
