"""Examples as objects: `af.train.Example` and its parts, with the fields and bytes of TensorFlow's messages."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from aioflow.kernels.data.message import Entries, Field, Items, Message


class BytesList(Message):
    r"""A list of strings.

    Attributes:
        value: the strings, as bytes.

    Examples:
        >>> af.train.BytesList(value=[b"red", b"green"]).SerializeToString()
        b'\n\x03red\n\x05green'
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"value": Field(1, "bytes", repeated=True)}
    value: list[bytes]

    def __init__(self, value: Iterable[bytes] | None = None) -> None:
        super().__init__(value=value)


class FloatList(Message):
    """A list of numbers of 32 bits.

    Attributes:
        value: the numbers.

    Examples:
        >>> af.train.FloatList.FromString(af.train.FloatList(value=[0.5, 2.0]).SerializeToString()).value
        [0.5, 2.0]
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"value": Field(1, "float", repeated=True)}
    value: list[float]

    def __init__(self, value: Iterable[float] | None = None) -> None:
        super().__init__(value=value)


class Int64List(Message):
    """A list of integers of 64 bits.

    Attributes:
        value: the integers.

    Examples:
        >>> af.train.Int64List.FromString(af.train.Int64List(value=[1, -2]).SerializeToString()).value
        [1, -2]
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"value": Field(1, "int64", repeated=True)}
    value: list[int]

    def __init__(self, value: Iterable[int] | None = None) -> None:
        super().__init__(value=value)


class Feature(Message):
    """A feature of an Example: one list, of strings, floats or integers.

    Attributes:
        bytes_list: the strings, if it has these.
        float_list: the floats.
        int64_list: the integers.

    Examples:
        >>> feature = af.train.Feature(int64_list=af.train.Int64List(value=[7]))
        >>> feature.WhichOneof("kind")
        'int64_list'
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {
        "bytes_list": Field(1, BytesList, oneof="kind"),
        "float_list": Field(2, FloatList, oneof="kind"),
        "int64_list": Field(3, Int64List, oneof="kind"),
    }
    bytes_list: BytesList
    float_list: FloatList
    int64_list: Int64List

    def __init__(
        self,
        bytes_list: BytesList | None = None,
        float_list: FloatList | None = None,
        int64_list: Int64List | None = None,
    ) -> None:
        super().__init__(bytes_list=bytes_list, float_list=float_list, int64_list=int64_list)


class Features(Message):
    """Features by name. A name that is read for the first time has an empty feature, which can be filled in place.

    Attributes:
        feature: the features.

    Examples:
        >>> features = af.train.Features()
        >>> features.feature["age"].int64_list.value.append(7)
        >>> features
        Features(feature={'age': Feature(int64_list=Int64List(value=[7]))})
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"feature": Field(1, Feature, key="string")}
    feature: Entries

    def __init__(self, feature: Mapping[str, Feature] | None = None) -> None:
        super().__init__(feature=feature)


class Example(Message):
    """A record of named features, as files of TFRecords hold them; `af.io.make_example` is a shorter way to its bytes.

    Attributes:
        features: its features.

    Examples:
        >>> age = af.train.Feature(int64_list=af.train.Int64List(value=[7]))
        >>> example = af.train.Example(features=af.train.Features(feature={"age": age}))
        >>> example.SerializeToString() == af.io.make_example({"age": 7})
        True
        >>> af.train.Example.FromString(example.SerializeToString()).features.feature["age"].int64_list.value
        [7]
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"features": Field(1, Features)}
    features: Features

    def __init__(self, features: Features | None = None) -> None:
        super().__init__(features=features)


class FeatureList(Message):
    """The features of one name for all steps of a SequenceExample.

    Attributes:
        feature: a feature for each step; `feature.add()` appends one.

    Examples:
        >>> words = af.train.FeatureList()
        >>> words.feature.add().bytes_list.value.append(b"hello")
        >>> len(words.feature)
        1
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"feature": Field(1, Feature, repeated=True)}
    feature: Items

    def __init__(self, feature: Iterable[Feature] | None = None) -> None:
        super().__init__(feature=feature)


class FeatureLists(Message):
    """Lists of features by name.

    Attributes:
        feature_list: the lists.

    Examples:
        >>> lists = af.train.FeatureLists()
        >>> lists.feature_list["words"].feature.add().bytes_list.value.append(b"hello")
        >>> list(lists.feature_list)
        ['words']
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"feature_list": Field(1, FeatureList, key="string")}
    feature_list: Entries

    def __init__(self, feature_list: Mapping[str, FeatureList] | None = None) -> None:
        super().__init__(feature_list=feature_list)


class SequenceExample(Message):
    """A record of a sequence: features of the whole, and lists of features with one for each step.

    Attributes:
        context: the features of the whole.
        feature_lists: the features of the steps.

    Examples:
        >>> sequence = af.train.SequenceExample()
        >>> sequence.context.feature["length"].int64_list.value.append(2)
        >>> for word in [b"good", b"day"]:
        ...     sequence.feature_lists.feature_list["words"].feature.add().bytes_list.value.append(word)
        >>> len(sequence.SerializeToString())
        51
    """

    FIELDS: ClassVar[Mapping[str, Field]] = {"context": Field(1, Features), "feature_lists": Field(2, FeatureLists)}
    context: Features
    feature_lists: FeatureLists

    def __init__(self, context: Features | None = None, feature_lists: FeatureLists | None = None) -> None:
        super().__init__(context=context, feature_lists=feature_lists)
