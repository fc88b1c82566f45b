"""Features of examples that become RaggedTensors."""

import pytest

import aioflow as af

Feature = af.io.RaggedFeature
EXAMPLES = (
    {"v": [3, 1, 4, 1, 5, 9], "outer": [0, 2, 3, 4], "splits": [0, 2, 3, 3, 6], "lengths": [2, 1, 0, 3],
     "starts": [0, 2, 3, 3], "limits": [2, 3, 3, 6], "rows": [0, 0, 1, 3, 3, 3]},
    {"v": [2, 7, 1, 8, 2, 8, 1], "outer": [0, 1, 1, 4], "splits": [0, 3, 4, 5, 7], "lengths": [3, 1, 1, 2],
     "starts": [0, 3, 4, 5], "limits": [3, 4, 5, 7], "rows": [0, 0, 0, 1, 2, 3, 3]},
    {"v": [], "outer": [0], "splits": [0], "lengths": [], "starts": [], "limits": [], "rows": []},
)  # fmt: skip
ROWS = [[[3, 1], [4], [], [1, 5, 9]], [[2, 7, 1], [8], [2], [8, 1]], []]


@pytest.fixture(autouse=True)
def graph():
    with af.Graph().as_default() as graph:
        yield graph


def examples():
    return [af.io.make_example({key: value for key, value in each.items() if value}) for each in EXAMPLES[:2]]


def feature(*partitions, **given):
    return Feature(af.int64, "v", list(partitions), **given)


FEATURES = {
    "values": feature(),
    "splits": feature(Feature.RowSplits("splits"), validate=True),
    "lengths": feature(Feature.RowLengths("lengths"), row_splits_dtype=af.int64),
    "starts": feature(Feature.RowStarts("starts")),
    "limits": feature(Feature.RowLimits("limits"), validate=True),
    "rows": feature(Feature.ValueRowIds("rows"), validate=True),
    "deep": feature(Feature.RowSplits("outer"), Feature.RowSplits("splits")),
}


async def test_the_rows_of_each_example_are_those_that_another_feature_tells(graph):
    parsed = af.io.parse_example(examples(), FEATURES)
    single = af.io.parse_single_example(examples()[0], FEATURES)
    assert parsed["splits"].row_splits.dtype is af.int32
    assert parsed["lengths"].row_splits.dtype is af.int64
    async with af.Session(graph=graph) as session:
        found, one = await session.run([parsed, single])
    for key in ("splits", "lengths", "starts", "limits", "rows"):
        assert (key, found[key].to_list(), one[key].to_list()) == (key, ROWS[:2], ROWS[0])
    assert found["values"].to_list() == [EXAMPLES[0]["v"], EXAMPLES[1]["v"]]
    assert one["values"].tolist() == EXAMPLES[0]["v"]
    assert found["deep"].to_list() == [[[[3, 1], [4]], [[]], [[1, 5, 9]]], [[[2, 7, 1]], [], [[8], [2], [8, 1]]]]


async def test_an_example_without_values_has_no_rows(graph):
    keys = {key: value for key, value in FEATURES.items() if key in ("lengths", "starts", "limits", "rows")}
    parsed = af.io.parse_example([*examples(), af.io.make_example({})], keys)
    async with af.Session(graph=graph) as session:
        found = await session.run(parsed)
    assert {key: value.to_list() for key, value in found.items()} == dict.fromkeys(keys, ROWS)


async def test_rows_of_one_length_are_an_axis_of_the_values(graph):
    halves = {
        "pairs": feature(Feature.UniformRowLength(2)),
        "of rows": feature(Feature.UniformRowLength(2), Feature.RowLengths("lengths")),
    }
    parsed = af.io.parse_single_example(examples()[0], halves)
    async with af.Session(graph=graph) as session:
        found = await session.run(parsed)
    assert found["pairs"].tolist() == [[3, 1], [4, 1], [5, 9]]
    assert found["of rows"].to_list() == [[[3, 1], [4]], [[], [1, 5, 9]]]


async def test_wrong_rows_and_descriptions_are_refused(graph):
    for wrong, kind, text in (
        (lambda: feature("splits"), TypeError, "RaggedFeature.RowSplits"),
        (lambda: feature(Feature.UniformRowLength(0)), ValueError, "1 or more, not 0"),
        (lambda: feature(row_splits_dtype=af.float32), ValueError, "not float32"),
        (
            lambda: af.data.experimental.parse_example_dataset({"x": Feature(af.int64)}),
            ValueError,
            "a dataset has no RaggedFeature",
        ),
    ):
        with pytest.raises(kind, match=text):
            wrong()
    data = af.io.make_example({"v": [1, 2, 3], "lengths": [1, 1]})
    parsed = af.io.parse_single_example(data, {"x": feature(Feature.RowLengths("lengths"), validate=True)})
    async with af.Session(graph=graph) as session:
        with pytest.raises(af.errors.InvalidArgumentError, match="'lengths' does not fit the values"):
            await session.run(parsed)
