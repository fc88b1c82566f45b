"""Texts: joining, splitting, replacing, hashing, and numbers as texts."""

from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Tensor
from aioflow.kernels.data.decoders import decode_raw
from aioflow.kernels.text.strings import as_string, reduce_join, regex_replace, string_join, substr
from aioflow.tensorflow_files.call import Call, known, known_list
from aioflow.tensorflow_files.registry import Build, operator, same
from aioflow.tensors.dtypes import float32

same("StringStrip=string_strip")


def _cased(name: str) -> Build:
    def build(call: Call, text: Tensor) -> Tensor:
        made: Tensor = REGISTRY[name](text, encoding=call.text("encoding", ""), name=call.name)
        return made

    return build


operator("StringLower")(_cased("string_lower"))
operator("StringUpper")(_cased("string_upper"))


@operator("StringJoin")
def _(call: Call, *inputs: Tensor) -> Tensor:
    return string_join(list(inputs), call.text("separator", ""), name=call.name)


@operator("ReduceJoin")
def _(call: Call, inputs: Tensor, axes: Tensor) -> Tensor:
    given = known_list(axes, "axes")
    return reduce_join(inputs, given, call.flag("keep_dims", False), call.text("separator", ""), name=call.name)


@operator("AsString")
def _(call: Call, x: Tensor) -> Tensor:
    digits = call.integer("precision", -1), call.flag("scientific", False), call.flag("shortest", False)
    return as_string(x, *digits, call.integer("width", -1), call.text("fill", ""), name=call.name)


@operator("StringLength")
def _(call: Call, x: Tensor) -> Tensor:
    made: Tensor = REGISTRY["string_length"](x, unit=call.text("unit", "BYTE"), name=call.name)
    return made


@operator("Substr")
def _(call: Call, x: Tensor, begin: Tensor, count: Tensor) -> Tensor:
    return substr(x, begin, count, unit=call.text("unit", "BYTE"), name=call.name)


@operator("StaticRegexReplace")
def _(call: Call, x: Tensor) -> Tensor:
    texts = call.text("pattern"), call.text("rewrite")
    return regex_replace(x, *texts, call.flag("replace_global", True), name=call.name)


@operator("RegexReplace")
def _(call: Call, x: Tensor, pattern: Tensor, rewrite: Tensor) -> Tensor:
    texts = [known(each, what).item().decode() for each, what in ((pattern, "pattern"), (rewrite, "rewrite"))]
    return regex_replace(x, *texts, call.flag("replace_global", True), name=call.name)


@operator("StringToNumber")
def _(call: Call, x: Tensor) -> Tensor:
    made: Tensor = REGISTRY["string_to_number"](x, call.dtype("out_type", float32), name=call.name)
    return made


def _hashed(name: str) -> Build:
    def build(call: Call, x: Tensor) -> Tensor:
        made: Tensor = REGISTRY[name](x, call.integer("num_buckets"), name=call.name)
        return made

    return build


operator("StringToHashBucket")(_hashed("string_to_hash_bucket"))
operator("StringToHashBucketFast")(_hashed("string_to_hash_bucket_fast"))


@operator("StringSplitV2", results="indices values shape")
def _(call: Call, x: Tensor, separator: Tensor) -> tuple[Tensor, ...]:
    made: tuple[Tensor, ...] = REGISTRY["string_split_v2"](
        x, known(separator, "separator").item().decode(), call.integer("maxsplit", -1), name=call.name
    )
    return made


@operator("StringSplit", results="indices values shape")
def _(call: Call, x: Tensor, delimiter: Tensor) -> tuple[Tensor, ...]:
    made: tuple[Tensor, ...] = REGISTRY["string_split"](
        x, known(delimiter, "delimiter").item().decode(), call.flag("skip_empty", True), name=call.name
    )
    return made


@operator("DecodeRaw")
def _(call: Call, x: Tensor) -> Tensor:
    return decode_raw(x, call.dtype("out_type"), call.flag("little_endian", True), name=call.name)
