"""Nodes of graphs and their attributes as messages, with the fields and bytes of TensorFlow's."""

from collections.abc import Mapping
from typing import ClassVar, Final

from aioflow.kernels.data.message import Entries, Enum, Field, Items, Message

Fields = Mapping[str, Field]
_NAMES: Final = (
    "FLOAT", "DOUBLE", "INT32", "UINT8", "INT16", "INT8", "STRING", "COMPLEX64", "INT64", "BOOL", "QINT8", "QUINT8",
    "QINT32", "BFLOAT16", "QINT16", "QUINT16", "UINT16", "COMPLEX128", "HALF", "RESOURCE", "VARIANT", "UINT32",
    "UINT64", "FLOAT8_E5M2", "FLOAT8_E4M3FN", "FLOAT8_E4M3FNUZ", "FLOAT8_E4M3B11FNUZ", "FLOAT8_E5M2FNUZ", "INT4",
    "UINT4", "INT2", "UINT2", "FLOAT4_E2M1FN",
)  # fmt: skip
_REFERENCE: Final = 100
"""What the number of a reference to a variable has more."""
DATA_TYPE: Final = Enum(
    "DataType", DT_INVALID=0,
    **{f"DT_{name}": number for number, name in enumerate(_NAMES, 1)},
    **{f"DT_{name}_REF": number for number, name in enumerate(_NAMES, 1 + _REFERENCE)},
)  # fmt: skip
"""The names of the numbers that stand for dtypes."""


class DimensionSize(Message):
    """A dimension of a shape.

    Attributes:
        size: its size; -1 if it is not known.
        name: its name.
    """

    FIELDS: ClassVar[Fields] = {"size": Field(1, "int64"), "name": Field(2, "string")}
    size: int
    name: str

    def __init__(self, size: int | None = None, name: str | None = None) -> None:
        super().__init__(size=size, name=name)


class TensorShapeProto(Message):
    """A shape.

    Attributes:
        dim: its dimensions.
        unknown_rank: whether the number of dimensions is not known.
    """

    Dim = DimensionSize
    FIELDS: ClassVar[Fields] = {"dim": Field(2, Dim, repeated=True), "unknown_rank": Field(3, "bool")}
    dim: Items
    unknown_rank: bool


class ResourceHandleProto(Message):
    """A handle of a resource, as a tensor of another process has it."""

    class DtypeAndShape(Message):
        """The number of a dtype, and a shape."""

        FIELDS: ClassVar[Fields] = {"dtype": Field(1, "enum", enum=DATA_TYPE), "shape": Field(2, TensorShapeProto)}
        dtype: int
        shape: TensorShapeProto

    FIELDS: ClassVar[Fields] = {
        "device": Field(1, "string"),
        "container": Field(2, "string"),
        "name": Field(3, "string"),
        "hash_code": Field(4, "uint64"),
        "maybe_type_name": Field(5, "string"),
        "dtypes_and_shapes": Field(6, DtypeAndShape, repeated=True),
    }
    device: str
    container: str
    name: str
    hash_code: int
    maybe_type_name: str
    dtypes_and_shapes: Items


class TensorProto(Message):
    """A tensor. `af.make_ndarray` reads its bytes, and `af.make_tensor_proto` makes them.

    Attributes:
        dtype: the number of its dtype in TensorFlow's DataType.
        tensor_shape: its shape.
        tensor_content: its elements as they are in memory; else they are in the list of their kind.
    """

    FIELDS: ClassVar[Fields] = {
        "dtype": Field(1, "enum", enum=DATA_TYPE),
        "tensor_shape": Field(2, TensorShapeProto),
        "version_number": Field(3, "int32"),
        "tensor_content": Field(4, "bytes"),
        "float_val": Field(5, "float", repeated=True),
        "double_val": Field(6, "double", repeated=True),
        "int_val": Field(7, "int32", repeated=True),
        "string_val": Field(8, "bytes", repeated=True),
        "scomplex_val": Field(9, "float", repeated=True),
        "int64_val": Field(10, "int64", repeated=True),
        "bool_val": Field(11, "bool", repeated=True),
        "dcomplex_val": Field(12, "double", repeated=True),
        "half_val": Field(13, "int32", repeated=True),
        "resource_handle_val": Field(14, ResourceHandleProto, repeated=True),
        "uint32_val": Field(16, "uint32", repeated=True),
        "uint64_val": Field(17, "uint64", repeated=True),
        "float8_val": Field(18, "bytes"),
    }
    dtype: int
    tensor_shape: TensorShapeProto
    tensor_content: bytes
    float_val: list[float]
    double_val: list[float]
    int_val: list[int]
    string_val: list[bytes]
    int64_val: list[int]
    bool_val: list[bool]


class VariantTensorDataProto(Message):
    """An element of a tensor of variants.

    Attributes:
        type_name: the name of its type.
        metadata: its content that is no tensor.
        tensors: its tensors.
    """

    FIELDS: ClassVar[Fields] = {
        "type_name": Field(1, "string"),
        "metadata": Field(2, "bytes"),
        "tensors": Field(3, TensorProto, repeated=True),
    }
    type_name: str
    metadata: bytes
    tensors: Items


TensorProto.FIELDS = {**TensorProto.FIELDS, "variant_val": Field(15, VariantTensorDataProto, repeated=True)}


class NameAttrList(Message):
    """A function by its name, with attributes.

    Attributes:
        name: the name of the function.
        attr: its attributes by name.

    Examples:
        >>> function = af.NameAttrList(name="body")
        >>> function.attr["T"].type = 1
        >>> print(function, end="")
        name: "body"
        attr {
          key: "T"
          value {
            type: DT_FLOAT
          }
        }
    """

    FIELDS: ClassVar[Fields] = {"name": Field(1, "string")}
    name: str
    attr: Entries


class AttrValue(Message):
    """An attribute of a node in a graph of TensorFlow: one of the fields has its value.

    An Operation has plain values in its `attrs`.

    Attributes:
        s: bytes.
        i: an integer.
        f: a float.
        b: a bool.
        type: the number of a dtype in TensorFlow's DataType.
        shape: a shape.
        tensor: a tensor.
        list: several values of one of these kinds.
        func: a function.
        placeholder: the name of an attribute of the function around.

    Examples:
        >>> value = af.AttrValue(i=7)
        >>> value.WhichOneof("value"), list(value.SerializeToString())
        ('i', [24, 7])
    """

    class ListValue(Message):
        """Several values of one kind."""

        FIELDS: ClassVar[Fields] = {
            "s": Field(2, "bytes", repeated=True),
            "i": Field(3, "int64", repeated=True),
            "f": Field(4, "float", repeated=True),
            "b": Field(5, "bool", repeated=True),
            "type": Field(6, "enum", repeated=True, enum=DATA_TYPE),
            "shape": Field(7, TensorShapeProto, repeated=True),
            "tensor": Field(8, TensorProto, repeated=True),
            "func": Field(9, NameAttrList, repeated=True),
        }
        s: list[bytes]
        i: list[int]
        f: list[float]
        b: list[bool]
        type: list[int]
        shape: Items
        tensor: Items
        func: Items

    FIELDS: ClassVar[Fields] = {
        "list": Field(1, ListValue, oneof="value"),
        "s": Field(2, "bytes", oneof="value"),
        "i": Field(3, "int64", oneof="value"),
        "f": Field(4, "float", oneof="value"),
        "b": Field(5, "bool", oneof="value"),
        "type": Field(6, "enum", oneof="value", enum=DATA_TYPE),
        "shape": Field(7, TensorShapeProto, oneof="value"),
        "tensor": Field(8, TensorProto, oneof="value"),
        "placeholder": Field(9, "string", oneof="value"),
        "func": Field(10, NameAttrList, oneof="value"),
    }
    list: ListValue
    s: bytes
    i: int
    f: float
    b: bool
    type: int
    shape: TensorShapeProto
    tensor: TensorProto
    placeholder: str
    func: NameAttrList


NameAttrList.FIELDS = {**NameAttrList.FIELDS, "attr": Field(2, AttrValue, key="string")}


class FullTypeDef(Message):
    """The type of a value, as TensorFlow infers it.

    Attributes:
        type_id: the number of its kind.
        args: the types that it has as parameters.
        s: a text as parameter.
        i: an integer as parameter.
    """

    FIELDS: ClassVar[Fields] = {
        "type_id": Field(1, "enum"),
        "s": Field(3, "string", oneof="attr"),
        "i": Field(4, "int64", oneof="attr"),
    }
    type_id: int
    args: Items
    s: str
    i: int


FullTypeDef.FIELDS = {**FullTypeDef.FIELDS, "args": Field(2, FullTypeDef, repeated=True)}


class NodeDef(Message):
    """An operation in a graph of TensorFlow. `af.GraphDef` has the operations of aioflow's graphs.

    Attributes:
        name: its name.
        op: the name of its op.
        input: the outputs of other nodes that it takes, as `node:place`, then `^node` for those that it waits for.
        device: the device that it asks for.
        attr: its attributes by name.

    Examples:
        >>> node = af.NodeDef(name="y", op="Relu", input=["x"], attr={"T": af.AttrValue(type=1)})
        >>> af.NodeDef.FromString(node.SerializeToString()).attr["T"].type
        1
    """

    class ExperimentalDebugInfo(Message):
        """The nodes and functions that a node was made from."""

        FIELDS: ClassVar[Fields] = {
            "original_node_names": Field(1, "string", repeated=True),
            "original_func_names": Field(2, "string", repeated=True),
        }
        original_node_names: list[str]
        original_func_names: list[str]

    FIELDS: ClassVar[Fields] = {
        "name": Field(1, "string"),
        "op": Field(2, "string"),
        "input": Field(3, "string", repeated=True),
        "device": Field(4, "string"),
        "attr": Field(5, AttrValue, key="string"),
        "experimental_debug_info": Field(6, ExperimentalDebugInfo),
        "experimental_type": Field(7, FullTypeDef),
    }
    name: str
    op: str
    input: list[str]
    device: str
    attr: Entries
    experimental_debug_info: ExperimentalDebugInfo
    experimental_type: FullTypeDef
