"""The messages of TensorFlow's files: graphs, functions, collections and saved models, as far as they are read.

Fields that are not listed are skipped. No message contains itself, so the depth of a file is bounded.
"""

from collections.abc import Mapping
from typing import ClassVar

from aioflow.kernels.data.message import Field, Message
from aioflow.kernels.data.node_messages import TensorShapeProto
from aioflow.train.checkpoint_messages import SaverDef

Fields = Mapping[str, Field]


class FunctionName(Message):
    """The name of a function of the library."""

    FIELDS: ClassVar[Fields] = {"name": Field(1, "string")}
    name: str


class ListValue(Message):
    """An attribute that is a list: one of the fields has its items."""

    FIELDS: ClassVar[Fields] = {
        "s": Field(2, "bytes", repeated=True),
        "i": Field(3, "int64", repeated=True),
        "f": Field(4, "float", repeated=True),
        "b": Field(5, "bool", repeated=True),
        "type": Field(6, "enum", repeated=True),
        "shape": Field(7, TensorShapeProto, repeated=True),
        "tensor": Field(8, "bytes", repeated=True),
        "func": Field(9, FunctionName, repeated=True),
    }


class AttrValue(Message):
    """An attribute of a node: one of the fields has its value. A tensor stays bytes."""

    FIELDS: ClassVar[Fields] = {
        "list": Field(1, ListValue, oneof="value"),
        "s": Field(2, "bytes", oneof="value"),
        "i": Field(3, "int64", oneof="value"),
        "f": Field(4, "float", oneof="value"),
        "b": Field(5, "bool", oneof="value"),
        "type": Field(6, "enum", oneof="value"),
        "shape": Field(7, TensorShapeProto, oneof="value"),
        "tensor": Field(8, "bytes", oneof="value"),
        "placeholder": Field(9, "string", oneof="value"),
        "func": Field(10, FunctionName, oneof="value"),
    }


class NodeDef(Message):
    """An operation."""

    FIELDS: ClassVar[Fields] = {
        "name": Field(1, "string"),
        "op": Field(2, "string"),
        "input": Field(3, "string", repeated=True),
        "device": Field(4, "string"),
        "attr": Field(5, AttrValue, key="string"),
    }
    name: str
    op: str
    input: list[str]
    device: str
    attr: dict[str, AttrValue]


class ArgDef(Message):
    """An argument or a result of a function."""

    FIELDS: ClassVar[Fields] = {"name": Field(1, "string"), "type": Field(3, "enum")}
    name: str
    type: int


class OpDef(Message):
    """The signature of a function."""

    FIELDS: ClassVar[Fields] = {
        "name": Field(1, "string"),
        "input_arg": Field(2, ArgDef, repeated=True),
        "output_arg": Field(3, ArgDef, repeated=True),
    }
    name: str
    input_arg: list[ArgDef]
    output_arg: list[ArgDef]


class FunctionDef(Message):
    """A function: nodes, and the node and output that each result comes from."""

    FIELDS: ClassVar[Fields] = {
        "signature": Field(1, OpDef),
        "node_def": Field(3, NodeDef, repeated=True),
        "ret": Field(4, "string", key="string"),
        "control_ret": Field(6, "string", key="string"),
    }
    signature: OpDef
    node_def: list[NodeDef]
    ret: dict[str, str]
    control_ret: dict[str, str]


class FunctionLibrary(Message):
    """The functions that nodes of a graph call."""

    FIELDS: ClassVar[Fields] = {"function": Field(1, FunctionDef, repeated=True)}
    function: list[FunctionDef]


class GraphDef(Message):
    """A graph."""

    FIELDS: ClassVar[Fields] = {"node": Field(1, NodeDef, repeated=True), "library": Field(2, FunctionLibrary)}
    node: list[NodeDef]
    library: FunctionLibrary


# Meta graphs


class MetaInfo(Message):
    """Facts about a meta graph: the tags that a loader chooses it by, and the version of TensorFlow."""

    FIELDS: ClassVar[Fields] = {
        "tags": Field(4, "string", repeated=True),
        "tensorflow_version": Field(5, "string"),
    }
    tags: list[str]
    tensorflow_version: str


class TensorInfo(Message):
    """A tensor of a signature."""

    FIELDS: ClassVar[Fields] = {"name": Field(1, "string"), "dtype": Field(2, "enum")}
    name: str
    dtype: int


class SignatureDef(Message):
    """A function of a model, by names of tensors."""

    FIELDS: ClassVar[Fields] = {
        "inputs": Field(1, TensorInfo, key="string"),
        "outputs": Field(2, TensorInfo, key="string"),
        "method_name": Field(3, "string"),
    }
    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]
    method_name: str


class Numbers(Message):
    """Integers: the items of a collection."""

    FIELDS: ClassVar[Fields] = {"value": Field(1, "int64", repeated=True)}
    value: list[int]


class Floats(Message):
    """Floats: the items of a collection."""

    FIELDS: ClassVar[Fields] = {"value": Field(1, "float", repeated=True)}
    value: list[float]


class Texts(Message):
    """Names of operations and tensors, or bytes: the items of a collection."""

    FIELDS: ClassVar[Fields] = {"value": Field(1, "bytes", repeated=True)}
    value: list[bytes]


class AnyMessage(Message):
    """A message of any kind, as bytes."""

    FIELDS: ClassVar[Fields] = {"value": Field(2, "bytes")}
    value: bytes


class AnyMessages(Message):
    """Messages of any kind: the items of a collection."""

    FIELDS: ClassVar[Fields] = {"value": Field(1, AnyMessage, repeated=True)}
    value: list[AnyMessage]


class Collection(Message):
    """A collection: names, messages as bytes, or numbers."""

    FIELDS: ClassVar[Fields] = {
        "node_list": Field(1, Texts),
        "bytes_list": Field(2, Texts),
        "int64_list": Field(3, Numbers),
        "float_list": Field(4, Floats),
        "any_list": Field(5, AnyMessages),
    }
    node_list: Texts
    bytes_list: Texts
    int64_list: Numbers
    float_list: Floats
    any_list: AnyMessages


class PartDef(Message):
    """The place of a variable that is a part of a larger one."""

    FIELDS: ClassVar[Fields] = {
        "full_name": Field(1, "string"),
        "full_shape": Field(2, "int64", repeated=True),
        "var_offset": Field(3, "int64", repeated=True),
    }
    full_name: str
    full_shape: list[int]
    var_offset: list[int]


class VariableDef(Message):
    """A variable, as collections describe it."""

    FIELDS: ClassVar[Fields] = {
        "variable_name": Field(1, "string"),
        "initializer_name": Field(2, "string"),
        "snapshot_name": Field(3, "string"),
        "save_slice_info_def": Field(4, PartDef),
        "is_resource": Field(5, "bool"),
        "initial_value_name": Field(6, "string"),
        "trainable": Field(7, "bool"),
    }
    variable_name: str
    initializer_name: str
    snapshot_name: str
    save_slice_info_def: PartDef
    initial_value_name: str
    trainable: bool


class AssetFile(Message):
    """An asset: the tensor that has its path, and its name in the folder `assets`."""

    FIELDS: ClassVar[Fields] = {"tensor_info": Field(1, TensorInfo), "filename": Field(2, "string")}
    tensor_info: TensorInfo
    filename: str


class MetaGraph(Message):
    """A graph with collections and signatures."""

    FIELDS: ClassVar[Fields] = {
        "meta_info_def": Field(1, MetaInfo),
        "graph_def": Field(2, GraphDef),
        "saver_def": Field(3, SaverDef),
        "collection_def": Field(4, Collection, key="string"),
        "signature_def": Field(5, SignatureDef, key="string"),
        "asset_file_def": Field(6, AssetFile, repeated=True),
    }
    meta_info_def: MetaInfo
    graph_def: GraphDef
    saver_def: SaverDef
    collection_def: dict[str, Collection]
    signature_def: dict[str, SignatureDef]
    asset_file_def: list[AssetFile]


class SavedModel(Message):
    """The file `saved_model.pb`."""

    FIELDS: ClassVar[Fields] = {"meta_graphs": Field(2, MetaGraph, repeated=True)}
    meta_graphs: list[MetaGraph]
