"""Summaries, and the event files they go to, which TensorBoard's own reader reads back."""

import io
import itertools
import sys
import wave

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.kernels.data import summary_wire
from aioflow.kernels.image import image_codecs
from tests.support.evaluate import evaluate
from tests.support.event_files import needs_pillow, needs_tensorboard, read


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


@pytest.fixture
async def session(graph):
    async with af.Session(graph=graph) as session:
        yield session


async def written(folder, session, fetch, feeds=None, step=0):
    """What TensorBoard's reader makes of the value of a summary."""
    async with af.summary.FileWriter(folder) as writer:
        writer.add_summary(await session.run(fetch, feeds), step)
    return read(folder)


# Names


def test_a_tag_is_the_name_with_the_scopes_around(graph):
    with af.name_scope("layer"):
        first = af.summary.scalar("the loss", 1.0)
        second = af.summary.scalar("the loss", 1.0)
    assert [first.op.name, second.op.name] == ["layer/the_loss", "layer/the_loss_1"]
    assert [first.op.attrs["tag"], second.op.attrs["tag"]] == ["layer/the_loss", "layer/the_loss_1"]


def test_a_name_that_no_tag_can_have_is_refused_as_it_was_given(graph):
    before = len(graph.get_operations())
    for name, family, said in [
        ("é", None, "'é' cannot be the name of a summary: '_' is not a valid scope name.*begin with a letter"),
        ("x", "_f", "'x' cannot be the name of a summary of the family '_f': '_f/x' is not"),
        ("", None, "a summary needs a name, not ''"),
        ("//", "f", "a summary needs a name, not '//'"),
    ]:
        with pytest.raises(ValueError, match=said):
            af.summary.histogram(name, np.zeros(2), family=family)
    assert len(graph.get_operations()) == before
    with af.name_scope("layer"):
        assert af.summary.scalar("é", 1.0).op.attrs["tag"] == "layer/_"


@pytest.mark.parametrize("family", ["", "/"])
def test_a_family_without_a_name_is_none(family):
    assert af.summary.scalar("loss", 1.0, family=family).op.attrs["tag"] == "loss"


def test_a_family_goes_before_the_tag():
    with af.name_scope("layer"):
        value = af.summary.histogram("weights", [1.0], family="all of them")
    assert value.op.name == "layer/all_of_them/weights"
    assert value.op.attrs["tag"] == "all_of_them/layer/all_of_them/weights"


def test_summaries_are_collected_for_merge_all_unless_other_collections_are_named(graph):
    kept = af.summary.scalar("kept", 1.0)
    other = af.summary.scalar("other", 1.0, collections=["mine"])
    both = af.summary.merge([kept, other], collections=["mine"])
    assert graph.get_collection(af.GraphKeys.SUMMARIES) == [kept]
    assert graph.get_collection("mine") == [other, both]
    assert af.summary.merge_all("nothing") is None
    assert list(af.summary.merge_all("mine").op.inputs) == [other, both]
    assert list(af.summary.merge_all("mine", scope="oth").op.inputs) == [other]


def test_a_summary_that_cannot_be_leaves_the_graph_as_it_was(graph):
    with pytest.raises(ValueError, match="rank 0 is needed"):
        af.summary.scalar("loss", [1.0, 2.0])
    with pytest.raises(ValueError, match="1, 3 or 4 channels, not 2"):
        af.summary.image("pictures", np.zeros((1, 2, 2, 2), np.float32))
    with pytest.raises(ValueError, match="max_outputs is 1 or more, not 0"):
        af.summary.image("pictures", np.zeros((1, 2, 2, 1), np.float32), max_outputs=0)
    with pytest.raises(ValueError, match=r"sounds are \[batch, frames\]"):
        af.summary.audio("sounds", np.zeros(3, np.float32), 8000)
    with pytest.raises(ValueError, match="needs strings, not float32"):
        af.summary.text("words", 1.0)
    with pytest.raises(ValueError, match="at least one input"):
        af.summary.merge([])
    assert graph.get_operations() == []


# What they say


async def test_where_they_run_tensorboard_is_not_needed(session, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    af.summary.scalar("loss", 1.0)
    af.summary.histogram("weights", [1.0, 2.0])
    af.summary.text("words", "text")
    assert list(summary_wire.tags_of(await session.run(af.summary.merge_all()))) == ["loss", "weights", "words"]


@needs_tensorboard
@pytest.mark.parametrize("value", [2.5, -0.0, 1e300, -1e300, np.nan, np.float16(0.1), np.int64(2**40)])
async def test_a_scalar_is_a_point_of_a_curve_at_its_step(session, tmp_path, value):
    found = await written(tmp_path, session, af.summary.scalar("loss", value), step=7)
    (point,) = found.Scalars("loss")
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(point.value, np.float32(value))
    assert point.step == 7


@needs_tensorboard
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8])
async def test_a_histogram_counts_every_value_once(session, tmp_path, dtype):
    values = np.random.default_rng(1).integers(0, 200, (30, 4)).astype(dtype)
    found = await written(tmp_path, session, af.summary.histogram("values", values))
    made = found.Histograms("values")[0].histogram_value
    assert (made.min, made.max, made.num) == (values.min(), values.max(), values.size)
    assert made.sum == pytest.approx(values.astype(float).sum())
    assert made.sum_squares == pytest.approx((values.astype(float) ** 2).sum())
    below = [(values.astype(float) < limit).sum() for limit in made.bucket_limit]
    np.testing.assert_array_equal(np.cumsum(made.bucket), below)


@pytest.mark.parametrize(
    "values", [[], [0.0], [-1e30, 1e30], [1e-13, -1e-13], [1e-12], [np.finfo(np.float64).max], [-3.0, -3.0, 5.0, 1e9]]
)
def test_the_limits_of_a_histogram_are_tensorflows_without_runs_of_empty_ones(values):
    made = parsed(evaluate(af.summary.histogram("values", np.array(values)))).histo
    limits, counts = list(made.bucket_limit), list(made.bucket)
    assert sum(counts) == len(values)
    assert limits == sorted(limits)
    assert limits[-1] == np.finfo(np.float64).max
    assert not any(one == other == 0 for one, other in itertools.pairwise(counts))
    for limit, count in zip(limits, counts, strict=True):
        if count and 1e-12 < abs(limit) < 1e20:
            assert np.log(abs(limit) / 1e-12) / np.log(1.1) == pytest.approx(
                round(np.log(abs(limit) / 1e-12) / np.log(1.1))
            )


def parsed(data):
    """The one value of a summary."""
    pytest.importorskip("tensorboard", reason="the package tensorboard is not installed")
    (value,) = af.summary.Summary.FromString(data[()]).value
    return value


async def test_a_histogram_of_what_is_not_finite_says_what_there_is(session):
    x = af.placeholder(af.float32, [None])
    summary = af.summary.histogram("values", x)
    with pytest.raises(errors.InvalidArgumentError, match="'values': 1 NaN and 2 infinite of 4 values"):
        await session.run(summary, {x: [1, np.nan, np.inf, -np.inf]})


@needs_tensorboard
@needs_pillow
async def test_pictures_are_shown_one_by_one(session, tmp_path):
    batch = np.random.default_rng(1).integers(0, 256, (4, 5, 6, 3)).astype(np.uint8)
    found = await written(tmp_path, session, af.summary.image("x", batch, max_outputs=2), step=3)
    assert found.Tags()["images"] == ["x/image/0", "x/image/1"]
    for number in range(2):
        (picture,) = found.Images(f"x/image/{number}")
        assert (picture.step, picture.height, picture.width) == (3, 5, 6)
        np.testing.assert_array_equal(image_codecs.decoded(picture.encoded_image_string, "PNG"), batch[number])


@needs_pillow
@pytest.mark.parametrize(
    ("values", "pixels"),
    [
        ([0.0, 1.0, 2.0], [0, 127, 255]),
        ([-1.0, 0.0, 2.0], [64, 128, 255]),
        ([-4.0, 0.0, 2.0], [1, 128, 191]),
        ([0.0, 0.0, 1e-7], [0, 0, 0]),
        ([-1e-7, 0.0, 0.0], [128, 128, 128]),
        ([np.nan, 3.0, np.inf], [255, 255, 255]),
        ([np.nan, -3.0, 0.0], [255, 1, 128]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_are_scaled_to_pixels_as_tensorflow_does(values, pixels, dtype):
    batch = np.array(values, dtype).reshape(1, 1, 3, 1)
    found = parsed(evaluate(af.summary.image("x", batch, max_outputs=1)))
    assert found.tag == "x/image"
    decoded = image_codecs.decoded(found.image.encoded_image_string, "PNG")
    np.testing.assert_array_equal(decoded.ravel(), np.array(pixels, np.uint8))


@needs_pillow
def test_a_pixel_of_which_a_channel_is_not_finite_is_red():
    batch = np.full((1, 1, 2, 4), 2.0, np.float32)
    batch[0, 0, 1, 2] = np.nan
    found = parsed(evaluate(af.summary.image("x", batch)))
    decoded = image_codecs.decoded(found.image.encoded_image_string, "PNG")
    np.testing.assert_array_equal(decoded[0], [[255] * 4, [255, 0, 0, 255]])


async def test_pictures_without_pixels_are_refused_in_the_run(session):
    x = af.placeholder(af.float32, None)
    with pytest.raises(errors.InvalidArgumentError, match=r"pictures of shape \[0, 2, 1\] cannot be shown"):
        await session.run(af.summary.image("x", x), {x: np.zeros((1, 0, 2, 1))})


@needs_tensorboard
async def test_sounds_can_be_listened_to(session, tmp_path):
    batch = np.array([[[0.0, 1.0], [0.5, -1.0], [3.0, np.nan]]], np.float32)
    found = await written(tmp_path, session, af.summary.audio("x", batch, 8000.0, max_outputs=1))
    (sound,) = found.Audio("x/audio")
    assert (sound.sample_rate, sound.length_frames, sound.content_type) == (8000.0, 3, "audio/wav")
    with wave.open(io.BytesIO(sound.encoded_audio_string)) as file:
        assert (file.getnchannels(), file.getframerate(), file.getnframes()) == (2, 8000, 3)
        frames = np.frombuffer(file.readframes(3), "<i2").reshape(3, 2)
    np.testing.assert_array_equal(frames, [[0, 32767], [16384, -32768], [32767, 0]])


@pytest.mark.parametrize(("shape", "rate"), [((1, 3, 0), 8000.0), ((1, 3), 0.0), ((1, 3), np.nan)])
async def test_sounds_that_no_file_can_hold_are_refused_in_the_run(session, shape, rate):
    x = af.placeholder(af.float32, None)
    with pytest.raises(errors.InvalidArgumentError, match="cannot be written"):
        await session.run(af.summary.audio("x", x, rate), {x: np.zeros(shape)})


@needs_tensorboard
async def test_texts_are_shown_as_markdown(session, tmp_path):
    words = np.array([["# Größe", ""], ["*b*", "c"]])
    found = await written(tmp_path, session, af.summary.text("words", words))
    (shown,) = found.Tensors("words")
    from tensorboard.util.tensor_util import make_ndarray

    np.testing.assert_array_equal(make_ndarray(shown.tensor_proto), np.char.encode(words).astype(object))
    assert found.SummaryMetadata("words").plugin_data.plugin_name == "text"


@needs_tensorboard
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint16", "int64", "bool", "complex64"])
async def test_a_tensor_is_there_with_what_tells_how_to_show_it(session, tmp_path, dtype):
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata
    from tensorboard.util.tensor_util import make_ndarray

    values = (np.arange(6).reshape(2, 3) % 3).astype(dtype)
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="mine", content=b"\x01"))
    summary = af.summary.tensor_summary("x", values, "of *x*", summary_metadata=metadata, display_name="X")
    found = await written(tmp_path, session, summary)
    read_back = make_ndarray(found.Tensors("x")[0].tensor_proto)
    assert read_back.dtype == values.dtype
    np.testing.assert_array_equal(read_back, values)
    shown = found.SummaryMetadata("x")
    assert (shown.plugin_data.plugin_name, shown.plugin_data.content) == ("mine", b"\x01")
    assert (shown.display_name, shown.summary_description) == ("X", "of *x*")


# Merged


@needs_tensorboard
async def test_a_merged_summary_has_the_values_of_all(session, tmp_path):
    for number in range(3):
        af.summary.scalar(f"s{number}", float(number))
    af.summary.text("words", "x" * 200)
    found = await written(tmp_path, session, af.summary.merge_all(), step=1)
    assert found.Tags()["scalars"] == ["s0", "s1", "s2"]
    assert found.Tags()["tensors"] == ["words"]


async def test_two_of_one_tag_cannot_be_merged(session):
    one, other = af.summary.scalar("loss", 1.0), af.summary.scalar("a", 2.0)
    twice = af.summary.merge([other, one, one])
    with pytest.raises(errors.InvalidArgumentError, match="two of the summaries have the tag 'loss'"):
        await session.run(twice)


WHOLE = summary_wire.scalar("loss", 1.0)


@pytest.mark.parametrize(
    "data", [WHOLE[:-1], b"\xff", b"\x0a\xff\xff", b"\x0b", b"\x80" * 11, WHOLE + b"\x0a\x02\x0a\x05"]
)
async def test_what_is_no_summary_cannot_be_merged(session, data):
    x = af.placeholder(af.string, [])
    with pytest.raises(errors.InvalidArgumentError):
        await session.run(af.summary.merge([x]), {x: data})


def test_the_tags_of_a_summary_are_found_among_fields_of_every_kind():
    histogram = summary_wire.histogram("h", np.array([1.0]), np.array([2.0]), np.array([1.0]))
    unknown = b"\x99\x01" + bytes(8) + b"\xa0\x01\x05" + b"\xad\x01" + bytes(4)
    assert list(summary_wire.tags_of(WHOLE + unknown + histogram)) == ["loss", "h"]


def test_operations_that_write_summaries_themselves_are_those_of_a_collection(graph):
    af.summary.scalar("loss", 1.0)
    assert af.summary.all_v2_summary_ops() == []
    writes = af.no_op()
    graph.add_to_collection("_SUMMARY_V2", writes)
    assert af.summary.all_v2_summary_ops() == [writes]
