"""Summaries and the events of event files as messages, with the fields and bytes of TensorFlow's."""

from collections.abc import Mapping
from typing import ClassVar, Final

from aioflow.kernels.data.message import Enum, Field, Items, Message
from aioflow.kernels.data.node_messages import TensorProto

Fields = Mapping[str, Field]


class HistogramProto(Message):
    """How many of the numbers of a tensor lie between which limits.

    Attributes:
        min: the least of the numbers.
        max: the greatest.
        num: how many they are.
        sum: their sum.
        sum_squares: the sum of their squares.
        bucket_limit: the upper limits.
        bucket: how many numbers lie below each limit and not below the one before.

    Examples:
        >>> data = await session.run(af.summary.histogram("weights", [1.0, 2.0, 3.0]))
        >>> (value,) = af.Summary.FromString(data).value
        >>> value.histo.num, sum(value.histo.bucket)
        (3.0, 3.0)
    """

    FIELDS: ClassVar[Fields] = {
        "min": Field(1, "double"),
        "max": Field(2, "double"),
        "num": Field(3, "double"),
        "sum": Field(4, "double"),
        "sum_squares": Field(5, "double"),
        "bucket_limit": Field(6, "double", repeated=True),
        "bucket": Field(7, "double", repeated=True),
    }
    min: float
    max: float
    num: float
    sum: float
    sum_squares: float
    bucket_limit: list[float]
    bucket: list[float]


class SummaryDescription(Message):
    """How a summary of TensorFlow 1 is shown.

    Attributes:
        type_hint: the kind of its tensor.

    Examples:
        >>> af.summary.SummaryDescription(type_hint="scalar").type_hint
        'scalar'
    """

    FIELDS: ClassVar[Fields] = {"type_hint": Field(1, "string")}
    type_hint: str


_DATA_CLASS: Final = Enum(
    "DataClass", DATA_CLASS_UNKNOWN=0, DATA_CLASS_SCALAR=1, DATA_CLASS_TENSOR=2, DATA_CLASS_BLOB_SEQUENCE=3
)


class SummaryMetadata(Message):
    """How a summary is shown.

    Attributes:
        plugin_data: the plugin of TensorBoard that shows it, and bytes for that.
        display_name: the name that is shown instead of the tag.
        summary_description: a description in Markdown.
        data_class: the number of the class of its values.

    Examples:
        >>> plugin = af.SummaryMetadata.PluginData(plugin_name="mine")
        >>> metadata = af.SummaryMetadata(plugin_data=plugin)
        >>> data = await session.run(af.summary.tensor_summary("x", [1, 2], summary_metadata=metadata))
        >>> af.Summary.FromString(data).value[0].metadata.plugin_data.plugin_name
        'mine'
    """

    class PluginData(Message):
        """A plugin of TensorBoard."""

        FIELDS: ClassVar[Fields] = {"plugin_name": Field(1, "string"), "content": Field(2, "bytes")}
        plugin_name: str
        content: bytes

    FIELDS: ClassVar[Fields] = {
        "plugin_data": Field(1, PluginData),
        "display_name": Field(2, "string"),
        "summary_description": Field(3, "string"),
        "data_class": Field(4, "enum", enum=_DATA_CLASS),
    }
    plugin_data: PluginData
    display_name: str
    summary_description: str
    data_class: int


class Summary(Message):
    """Values with tags, as a summary operation gives them in bytes.

    Attributes:
        value: the values.

    Examples:
        >>> data = await session.run(af.summary.scalar("loss", 0.5))
        >>> print(af.Summary.FromString(data), end="")
        value {
          tag: "loss"
          simple_value: 0.5
        }
    """

    class Image(Message):
        """An image in a format such as PNG."""

        FIELDS: ClassVar[Fields] = {
            "height": Field(1, "int32"),
            "width": Field(2, "int32"),
            "colorspace": Field(3, "int32"),
            "encoded_image_string": Field(4, "bytes"),
        }
        height: int
        width: int
        colorspace: int
        encoded_image_string: bytes

    class Audio(Message):
        """Sound in a format such as WAV."""

        FIELDS: ClassVar[Fields] = {
            "sample_rate": Field(1, "float"),
            "num_channels": Field(2, "int64"),
            "length_frames": Field(3, "int64"),
            "encoded_audio_string": Field(4, "bytes"),
            "content_type": Field(5, "string"),
        }
        sample_rate: float
        num_channels: int
        length_frames: int
        encoded_audio_string: bytes
        content_type: str

    class Value(Message):
        """A value with its tag: one of a number, an image, a histogram, sound and a tensor."""

        tag: str
        simple_value: float
        obsolete_old_style_histogram: bytes
        image: "Summary.Image"
        histo: HistogramProto
        audio: "Summary.Audio"
        node_name: str
        tensor: TensorProto
        metadata: SummaryMetadata

    FIELDS: ClassVar[Fields] = {"value": Field(1, Value, repeated=True)}
    value: Items


Summary.Value.FIELDS = {
    "tag": Field(1, "string"),
    "simple_value": Field(2, "float", oneof="value"),
    "obsolete_old_style_histogram": Field(3, "bytes", oneof="value"),
    "image": Field(4, Summary.Image, oneof="value"),
    "histo": Field(5, HistogramProto, oneof="value"),
    "audio": Field(6, Summary.Audio, oneof="value"),
    "node_name": Field(7, "string"),
    "tensor": Field(8, TensorProto, oneof="value"),
    "metadata": Field(9, SummaryMetadata),
}


class LogMessage(Message):
    """A line of a log, in files of old versions of TensorFlow.

    Attributes:
        level: its level, such as `LogMessage.WARN`.
        message: its text.

    Examples:
        >>> print(af.LogMessage(level=af.LogMessage.WARN, message="late"), end="")
        level: WARN
        message: "late"
    """

    Level: Final = Enum("Level", UNKNOWN=0, DEBUGGING=10, INFO=20, WARN=30, ERROR=40, FATAL=50)
    UNKNOWN, DEBUGGING, INFO, WARN, ERROR, FATAL = Level.values()
    FIELDS: ClassVar[Fields] = {"level": Field(1, "enum", enum=Level), "message": Field(2, "string")}
    level: int
    message: str


class SessionLog(Message):
    """The start, the end or a checkpoint of a training.

    Attributes:
        status: which of them, such as `SessionLog.START`.
        checkpoint_path: the path of the checkpoint.
        msg: a text.

    Examples:
        >>> log = af.SessionLog(status=af.SessionLog.CHECKPOINT, checkpoint_path="model-7")
        >>> af.SessionLog.SessionStatus.Name(log.status)
        'CHECKPOINT'
    """

    SessionStatus: Final = Enum("SessionStatus", STATUS_UNSPECIFIED=0, START=1, STOP=2, CHECKPOINT=3)
    STATUS_UNSPECIFIED, START, STOP, CHECKPOINT = SessionStatus.values()
    FIELDS: ClassVar[Fields] = {
        "status": Field(1, "enum", enum=SessionStatus),
        "checkpoint_path": Field(2, "string"),
        "msg": Field(3, "string"),
    }
    status: int
    checkpoint_path: str
    msg: str


class TaggedRunMetadata(Message):
    """The records of a traced run, as bytes of a message of TensorFlow's.

    Attributes:
        tag: its tag.
        run_metadata: the records.

    Examples:
        >>> af.summary.TaggedRunMetadata(tag="first").tag
        'first'
    """

    FIELDS: ClassVar[Fields] = {"tag": Field(1, "string"), "run_metadata": Field(2, "bytes")}
    tag: str
    run_metadata: bytes


class SourceMetadata(Message):
    """The program that has written an event file."""

    FIELDS: ClassVar[Fields] = {"writer": Field(1, "string")}
    writer: str


class Event(Message):
    """An entry of an event file. `af.train.summary_iterator` reads them, and `af.summary.FileWriter` writes them.

    Attributes:
        wall_time: when it was made, in seconds since 1970.
        step: the step of the training.
        summary: summaries, if it has these.
        session_log: the start, the end or a checkpoint of a training.
        graph_def: a graph, as bytes of a message of TensorFlow's.
        meta_graph_def: a graph with collections, as bytes.
        tagged_run_metadata: the records of a traced run.
        file_version: the version of the file, in its first event.

    Examples:
        >>> event = af.Event(wall_time=1.0, step=7)
        >>> event.summary.value.add(tag="loss", simple_value=0.5)
        Value(tag='loss', simple_value=0.5)
        >>> event.WhichOneof("what")
        'summary'
    """

    FIELDS: ClassVar[Fields] = {
        "wall_time": Field(1, "double"),
        "step": Field(2, "int64"),
        "file_version": Field(3, "string", oneof="what"),
        "graph_def": Field(4, "bytes", oneof="what"),
        "summary": Field(5, Summary, oneof="what"),
        "log_message": Field(6, LogMessage, oneof="what"),
        "session_log": Field(7, SessionLog, oneof="what"),
        "tagged_run_metadata": Field(8, TaggedRunMetadata, oneof="what"),
        "meta_graph_def": Field(9, "bytes", oneof="what"),
        "source_metadata": Field(10, SourceMetadata),
    }
    wall_time: float
    step: int
    file_version: str
    graph_def: bytes
    summary: Summary
    log_message: LogMessage
    session_log: SessionLog
    tagged_run_metadata: TaggedRunMetadata
    meta_graph_def: bytes
    source_metadata: SourceMetadata
