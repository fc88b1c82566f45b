"""The messages of the Open Inference Protocol by Google's package protobuf, from a table of their fields."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_TABLE = """
InferParameter: bool_param bool 1, int64_param int64 2, string_param string 3, \\
double_param double 4, uint64_param uint64 5
ParametersEntry: key string 1, value InferParameter 2
InferTensorContents: bool_contents bool* 1, int_contents int32* 2, int64_contents int64* 3, uint_contents uint32* 4, \
uint64_contents uint64* 5, fp32_contents float* 6, fp64_contents double* 7, bytes_contents bytes* 8
Tensor: name string 1, datatype string 2, shape int64* 3, parameters ParametersEntry* 4, contents InferTensorContents 5
RequestedOutput: name string 1, parameters ParametersEntry* 2
ModelInferRequest: model_name string 1, model_version string 2, id string 3, parameters ParametersEntry* 4, \
inputs Tensor* 5, outputs RequestedOutput* 6, raw_input_contents bytes* 7, unknown bytes 99
ModelInferResponse: model_name string 1, model_version string 2, id string 3, outputs Tensor* 5, \
raw_output_contents bytes* 6
ModelRequest: name string 1, version string 2
Flag: value bool 1
ServerMetadataResponse: name string 1, version string 2, extensions string* 3
ModelMetadataResponse: name string 1, versions string* 2, platform string 3, inputs Tensor* 4, outputs Tensor* 5
"""


def _classes(packed):
    file = descriptor_pb2.FileDescriptorProto(name=f"inference_{packed}.proto", package="inference", syntax="proto3")
    for line in _TABLE.replace("\\\n", "").strip().splitlines():
        name, fields = line.split(": ")
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            key, kind, number = field.split()
            made = message.field.add(name=key, number=int(number), label=3 if kind.endswith("*") else 1)
            kind = kind.rstrip("*")
            made.type = getattr(_FIELD, f"TYPE_{kind.upper()}", _FIELD.TYPE_MESSAGE)
            if made.type == _FIELD.TYPE_MESSAGE:
                made.type_name = f".inference.{kind}"
            elif made.label == 3 and kind not in ("string", "bytes"):
                made.options.packed = packed
    return message_factory.GetMessages([file], pool=descriptor_pool.DescriptorPool())


_PACKED, UNPACKED = _classes(True), _classes(False)


def message(name, packed=True):
    """The class of a message; `packed` says how it writes lists of numbers."""
    return (_PACKED if packed else UNPACKED)[f"inference.{name}"]


def parameters(**values):
    """Parameters by name."""
    kinds = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}
    return [
        {"key": name, "value": message("InferParameter")(**{kinds[type(value)]: value})}
        for name, value in values.items()
    ]
