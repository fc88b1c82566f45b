"""Variables that begin with values of a checkpoint, and of another model with another vocabulary."""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors

t = af.train


@pytest.fixture
async def saved(tmp_path):
    """A checkpoint of variables in two scopes, in a directory with two vocabularies."""
    (tmp_path / "old").write_text("x\ny\nz\n")
    (tmp_path / "new").write_text("z\r\nn\r\nx")
    with af.Graph().as_default() as graph:
        af.Variable(np.arange(6, dtype=np.float32).reshape(3, 2), name="a/rows")
        af.Variable([1.0, 2.0], name="a/bias")
        af.Variable(np.arange(6, dtype=np.float32).reshape(2, 3), name="columns")
        saver, init = t.Saver(), af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        await saver.save(session, tmp_path / "run" / "model", 1)
    return tmp_path / "run"


@pytest.fixture
def graph(saved):
    with af.Graph().as_default() as graph:
        yield graph


async def values(graph, *variables):
    init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)
        return [value.tolist() for value in await session.run(list(variables))]


async def test_a_scope_a_name_a_variable_and_parts_of_rows_are_initialized(saved, graph):
    bias, rows = af.Variable([0.0, 0.0], name="b/bias"), af.Variable(np.zeros((3, 2), np.float32), name="b/rows")
    other, alone = af.Variable([0.0, 0.0], name="other"), af.Variable([0.0, 0.0])
    parts = [af.Variable(np.zeros((1, 2), np.float32)), af.Variable(np.zeros((2, 2), np.float32))]
    rest = af.Variable(5.0, name="rest")
    old = bias.initializer
    t.init_from_checkpoint(saved, {"a/": "b/", "a/bias": "other"})
    t.init_from_checkpoint(saved / "model-1", {"a/bias": alone, "a/rows": parts})
    assert bias.initializer is not old
    found = await values(graph, bias, rows, other, alone, *parts, rest)
    assert found == [[1, 2], [[0, 1], [2, 3], [4, 5]], [1, 2], [1, 2], [[0, 1]], [[2, 3], [4, 5]], 5]


async def test_a_slot_and_initialized_values_begin_there_too(saved, graph):
    bias = af.Variable([0.0, 0.0], name="a/bias")
    t.warm_start(saved, "a/bias")
    shadow = af.Variable(bias.initialized_value(), name="shadow")
    assert await values(graph, shadow) == [[1, 2]]


async def test_rows_follow_their_words(saved, graph):
    rows = af.Variable(np.zeros((4, 2), np.float32), name="a/rows")
    columns = af.Variable(np.zeros((2, 3), np.float32), name="mine")
    fixed = af.Variable([9.0, 9.0], name="a/bias", trainable=False)
    words = saved.parent / "new", 3, 1, saved.parent / "old"
    t.warm_start(
        saved,
        var_name_to_vocab_info={
            "a/rows": t.VocabInfo(*words, backup_initializer=af.ones_initializer()),
            "mine": t.VocabInfo(words[0], 3, 0, words[3], axis=1),
        },
        var_name_to_prev_var_name={"mine": "columns"},
    )
    assert await values(graph, rows, columns, fixed) == [
        [[4, 5], [1, 1], [0, 1], [1, 1]], [[2, 0, 0], [5, 0, 3]], [9, 9],
    ]  # fmt: skip
    t.warm_start(saved, ["a/bias"])  # global variables, too
    assert await values(graph, fixed) == [[1, 2]]


BAD = {
    "another shape": (lambda d, w: t.init_from_checkpoint(d, {"a/bias": w}), ValueError, r"needs float32\[4, 2\], and"),
    "no tensor": (lambda d, w: t.init_from_checkpoint(d, {"gone": w}), ValueError, "no tensor 'gone' for 'a/rows:0'"),
    "no variable": (lambda d, w: t.init_from_checkpoint(d, {"a/bias": "gone"}), ValueError, "no variable of that name"),
    "no scope": (lambda d, w: t.init_from_checkpoint(d, {"a/": "gone/"}), ValueError, "no variable in the scope"),
    "half a scope": (lambda d, w: t.init_from_checkpoint(d, {"a": "a/"}), ValueError, "ends with '/', too"),
    "too little in a scope": (lambda d, w: t.init_from_checkpoint(d, {"/": "a/"}), ValueError, "has no 'rows'"),
    "a number": (lambda d, w: t.init_from_checkpoint(d, {"a/bias": 7}), TypeError, "not to 7"),
    "no checkpoint": (lambda d, w: t.init_from_checkpoint(d / "gone", {"a/bias": w}), errors.NotFoundError, "gone"),
    "an unused name": (
        lambda d, w: t.warm_start(d, [w], var_name_to_prev_var_name={"w": "a/bias"}), ValueError, "w: no variable",
    ),
    "a vocabulary of another size": (
        lambda d, w: t.warm_start(d, None, {"a/rows": t.VocabInfo(d.parent / "new", 3, 0, d.parent / "old")}),
        ValueError, "3 words with 0 buckets",
    ),
    "a short vocabulary": (
        lambda d, w: t.warm_start(d, None, {"a/rows": t.VocabInfo(d.parent / "new", 4, 0, d.parent / "old")}),
        ValueError, "has 3 words, and not 4",
    ),
    "another old vocabulary": (
        lambda d, w: t.warm_start(d, None, {"a/rows": t.VocabInfo(d.parent / "new", 3, 1, d.parent / "old", 2)}),
        ValueError, r"needs float32\[2, 2\]",
    ),
    "a third axis": (
        lambda d, w: t.warm_start(d, None, {"a/rows": t.VocabInfo(d.parent / "new", 3, 1, d.parent / "old", axis=2)}),
        ValueError, "axis 0 or 1, not 2",
    ),
    "no vocabulary": (lambda d, w: t.warm_start(d, None, {"a/rows": "new"}), TypeError, "an af.train.VocabInfo"),
    "numbers for variables": (lambda d, w: t.warm_start(d, [7]), TypeError, "vars_to_warm_start is an expression"),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("what", BAD)
def test_what_does_not_fit_is_refused_by_name_and_changes_nothing(saved, graph, what):
    weight = af.Variable(np.zeros((4, 2), np.float32), name="a/rows")
    before, initializer = graph.version, weight.initializer
    build, error, text = BAD[what]
    with pytest.raises(error, match=text):
        build(saved, weight)
    assert (graph.version, weight.initializer) == (before, initializer)
