"""Messages of the Open Inference Protocol over gRPC, as the objects of JSON that say the same over REST.

So both have the same checks and the same errors. The fields have the numbers of `open_inference_grpc.proto`:

    ModelInferRequest            1 model_name  2 model_version  3 id  4 parameters  5 inputs  6 outputs  7 raw contents
    InferInputTensor             1 name  2 datatype  3 shape  4 parameters  5 contents
    InferRequestedOutputTensor   1 name  2 parameters
    InferParameter               1 bool  2 int64  3 string  4 double  5 uint64
    InferTensorContents          1 bool  2 int32  3 int64  4 uint32  5 uint64  6 float  7 double  8 bytes
    ModelInferResponse           1 model_name  2 model_version  3 id  4 parameters  5 outputs  6 raw contents

A reader skips fields that it does not know, and those of another kind of the wire, as protocol buffers demand.
"""

import contextlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.files import message_wire as wire
from aioflow.files.message_wire import Part
from aioflow.serving.failures import RequestRefusedError
from aioflow.serving.inference_tensors import write_binary
from aioflow.serving.limits import Limits
from aioflow.tensors.dtypes import Array

_MOST_FIELDS: Final = 2**14
"""The most fields of a message: Python reads them in about 25 ms, and the event loop waits meanwhile."""
_MOST: Final = 2**64 - 1
_CONTENTS: Final[Mapping[int, str]] = {
    1: "bool_contents", 2: "int_contents", 3: "int64_contents", 4: "uint_contents",
    5: "uint64_contents", 6: "fp32_contents", 7: "fp64_contents", 8: "bytes_contents",
}  # fmt: skip
_CONTENTS_OF: Final[Mapping[str, int]] = {
    "BOOL": 1, "INT8": 2, "INT16": 2, "INT32": 2, "INT64": 3, "UINT8": 4, "UINT16": 4, "UINT32": 4, "UINT64": 5,
    "FP32": 6, "FP64": 7, "BYTES": 8,
}  # fmt: skip
_RAW_CONTENTS: Final = (7, wire.BYTES)
"""The field of raw contents, and its kind."""
_RAW_ONLY: Final = ("FP16", "BF16")
_BOOL_CONTENTS, _UINT64_CONTENTS, _BYTES_CONTENTS = 1, 5, 8
_NUMBERS: Final[Mapping[int, tuple[int, str]]] = {6: (wire.FOUR, "<f4"), 7: (wire.EIGHT, "<f8")}
"""The kind of one number on the wire, and its dtype, for contents that are no varints."""


# From a request


def read_model(message: bytes) -> tuple[str, str]:
    """Return the name and the version in a request for one model. InvalidArgumentError if it is malformed."""
    with _blaming():
        reader = _Reader(message)
        found = {1: "", 2: ""}
        for number, kind, begin, end in reader.fields((0, len(message))):
            if number in found and kind == wire.BYTES:
                found[number] = reader.text(begin, end)
        return found[1], found[2]


def read_inference(message: bytes, limits: Limits) -> tuple[dict[str, Any], memoryview]:
    """Return the object of JSON for a ModelInferRequest, and the bytes of the raw tensors.

    Raises:
        RequestRefusedError: the parts without raw tensors are longer than the limit.
        InvalidArgumentError: the message is malformed, or has contents that do not belong to the datatypes.
    """
    with _blaming():
        reader = _Reader(message)
        fields = [*reader.fields((0, len(message)))]
        raw = [memoryview(message)[begin:end] for number, kind, begin, end in fields if (number, kind) == _RAW_CONTENTS]
        rest = len(message) - sum(map(len, raw))
        if rest > limits.json:
            text = f"the message has {rest} bytes that are not raw; at most {limits.json} are taken"
            raise RequestRefusedError(413, f"{text}: send the tensors as raw_input_contents")
        found = reader.inference(fields)
    _place_contents(found["inputs"], raw)
    return found, raw[0] if len(raw) == 1 else memoryview(b"".join(raw))


def _place_contents(inputs: Sequence[dict[str, Any]], raw: Sequence[memoryview]) -> None:
    """Give each input its elements as `data`, or the size of its raw bytes."""
    if raw and len(raw) != len(inputs):
        text = f"there are {len(inputs)} inputs and {len(raw)} raw_input_contents: each input needs one"
        raise errors.InvalidArgumentError(text)
    for index, item in enumerate(inputs):
        contents = item.pop("contents")
        if not raw:
            item["data"] = _data(item, contents)
        elif contents:
            text = f"input {item.get('name', '')!r} has contents, although the request has raw_input_contents"
            raise errors.InvalidArgumentError(text)
        else:
            item["parameters"] = {**item["parameters"], "binary_data_size": len(raw[index])}


def _data(item: Mapping[str, Any], contents: Mapping[int, list[Any]]) -> list[Any]:
    """Return the elements of an input. InvalidArgumentError if they are those of another datatype."""
    name, datatype = item.get("name", ""), item.get("datatype", "")
    expected = _CONTENTS_OF.get(datatype, 0)
    strange = [number for number in contents if number != expected]
    if strange and (expected or datatype in _RAW_ONLY):
        wanted = _CONTENTS.get(expected, "raw_input_contents")
        text = f"input {name!r} of datatype {datatype} needs {wanted}, and has {_CONTENTS[strange[0]]}"
        raise errors.InvalidArgumentError(text)
    return contents.get(expected, [])


@contextlib.contextmanager
def _blaming() -> Iterator[None]:
    """Inside the block, ValueError of a malformed message becomes InvalidArgumentError."""
    try:
        yield
    except ValueError as error:  # also of UTF-8
        raise errors.InvalidArgumentError(f"the message is malformed: {error}") from None


class _Reader:
    """Reads parts of one message. ValueError if they are malformed, or too many."""

    def __init__(self, message: bytes) -> None:
        self._message: Final = message
        self._left = _MOST_FIELDS

    def fields(self, part: Part) -> Iterator[tuple[int, int, int, int]]:
        """The fields of a part: number, kind, and where the value begins and ends."""
        for field in wire.fields(self._message, part):
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"it has more than {_MOST_FIELDS} fields; send the tensors as raw_input_contents")
            yield field

    def text(self, begin: int, end: int) -> str:
        return str(self._message[begin:end], "utf-8")

    def inference(self, fields: Iterable[tuple[int, int, int, int]]) -> dict[str, Any]:
        """What the fields of a ModelInferRequest say, without the raw contents."""
        found: dict[str, Any] = {"parameters": {}, "inputs": [], "outputs": []}
        for number, kind, begin, end in fields:
            match number, kind:
                case 1 | 2 | 3, wire.BYTES:
                    found[("model_name", "model_version", "id")[number - 1]] = self.text(begin, end)
                case 4, wire.BYTES:
                    self._parameter((begin, end), found["parameters"])
                case 5, wire.BYTES:
                    found["inputs"].append(self._input((begin, end)))
                case 6, wire.BYTES:
                    found["outputs"].append(self._output((begin, end)))
        return found

    def _input(self, part: Part) -> dict[str, Any]:
        found: dict[str, Any] = {"shape": [], "parameters": {}, "contents": {}}
        for number, kind, begin, end in self.fields(part):
            match number, kind:
                case 1 | 2, wire.BYTES:
                    found[("name", "datatype")[number - 1]] = self.text(begin, end)
                case 3, wire.BYTES | wire.VARINT:
                    found["shape"] += wire.integers(self._message, begin, end).tolist()
                case 4, wire.BYTES:
                    self._parameter((begin, end), found["parameters"])
                case 5, wire.BYTES:
                    self._contents((begin, end), found["contents"])
        return found

    def _output(self, part: Part) -> dict[str, Any]:
        found: dict[str, Any] = {"parameters": {}}
        for number, kind, begin, end in self.fields(part):
            match number, kind:
                case 1, wire.BYTES:
                    found["name"] = self.text(begin, end)
                case 2, wire.BYTES:
                    self._parameter((begin, end), found["parameters"])
        return found

    def _parameter(self, entry: Part, into: dict[str, Any]) -> None:
        """Read an entry of a map of parameters."""
        name, value = "", None
        for number, kind, begin, end in self.fields(entry):
            match number, kind:
                case 1, wire.BYTES:
                    name = self.text(begin, end)
                case 2, wire.BYTES:
                    value = self._value((begin, end))
        into[name] = value

    def _value(self, part: Part) -> Any:
        """The value of a parameter; None if it has none. The last one counts."""
        value: Any = None
        for number, kind, begin, end in self.fields(part):
            match number, kind:
                case 1 | 2 | 5, wire.VARINT:
                    found = wire.read_varint(self._message, begin, end)[0]
                    value = found if number == 5 else bool(found) if number == 1 else wire.signed(found)
                case 3, wire.BYTES:
                    value = self.text(begin, end)
                case 4, wire.EIGHT:
                    (value,) = struct.unpack_from("<d", self._message, begin)
        return value

    def _contents(self, part: Part, into: dict[int, list[Any]]) -> None:
        """Read the elements of a tensor, by the number of their field. Numbers may be packed."""
        for number, kind, begin, end in self.fields(part):
            single, dtype = _NUMBERS.get(number, (wire.VARINT, ""))
            if number not in _CONTENTS or kind not in (wire.BYTES, single):
                continue
            values = into.setdefault(number, [])
            if number == _BYTES_CONTENTS:
                if kind == wire.BYTES:
                    values.append(self._message[begin:end])
            elif dtype:
                values += np.frombuffer(memoryview(self._message)[begin:end], dtype).tolist()
            else:
                values += _integers(number, wire.integers(self._message, begin, end))


def _integers(number: int, values: Array) -> list[Any]:
    kinds = {_BOOL_CONTENTS: np.bool_, _UINT64_CONTENTS: np.uint64}
    items: list[Any] = values.astype(kinds.get(number, np.int64)).tolist()
    return items


# To a response


def server_response(facts: Mapping[str, Any]) -> bytes:
    """Return the ServerMetadataResponse for an object of JSON."""
    return _text(1, facts["name"]) + _text(2, facts["version"]) + _texts(3, facts["extensions"])


def model_response(facts: Mapping[str, Any]) -> bytes:
    """Return the ModelMetadataResponse for an object of JSON."""
    tensors = [
        wire.content(field, _tensor(item["name"], item["datatype"], item["shape"]))
        for field, key in ((4, "inputs"), (5, "outputs"))
        for item in facts[key]
    ]
    return b"".join([_text(1, facts["name"]), _texts(2, facts["versions"]), _text(3, facts["platform"]), *tensors])


def yes_or_no(value: bool) -> bytes:
    """Return the response with a field `live` or `ready`."""
    return wire.number(1, 1) if value else b""


async def inference_response(
    model: str, version: int, request_id: str, outputs: Mapping[str, Array]
) -> list[bytes | memoryview]:
    """Return the parts of a ModelInferResponse with raw tensors. UnimplementedError as `write_binary`."""
    head = [_text(1, model), _text(2, str(version)), _text(3, request_id)]
    raw: list[bytes | memoryview] = []
    for name, array in outputs.items():
        tensor, parts = await write_binary(name, array)
        head.append(wire.content(5, _tensor(name, tensor.datatype, tensor.shape)))
        raw += [wire.varint(6 << 3 | wire.BYTES) + wire.varint(tensor.size), *parts]
    return [b"".join(head), *raw]


def _tensor(name: str, datatype: str, sizes: Iterable[int]) -> bytes:
    """Return a tensor without its elements; -1 stands for an open size."""
    shape = b"".join([wire.varint(size & _MOST) for size in sizes])
    return _text(1, name) + _text(2, datatype) + (wire.content(3, shape) if shape else b"")


def _texts(field: int, texts: Iterable[str]) -> bytes:
    return b"".join([wire.content(field, text.encode()) for text in texts])


def _text(field: int, text: str) -> bytes:
    return _texts(field, [text] if text else [])
