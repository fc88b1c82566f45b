"""Saving signatures of a graph, and loading them: what is saved, what is shared, what callers get."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from aioflow.resources.containers import VariableState, drop_shared
from aioflow.saved_model import LoadedModel, Signature, WarmUpRequest, load, save
from aioflow.tensors.fixed_memory import is_fixed
from tests.support.saved_models import Line, rows, turns


async def answers(model: LoadedModel, session: af.Session, x, signature="serving_default"):
    found = model.signatures[signature]
    return await session.run(dict(found.outputs), {found.inputs["x"]: x})


def text_of(path):
    return Path(path).read_text()


async def test_a_loaded_model_computes_the_same_bits_and_can_be_trained_further(tmp_path):
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [None, 4], name="x")
        weights = af.Variable(af.random_normal([4, 3], seed=1), name="weights")
        steps = af.Variable(0, name="steps", trainable=False)
        loop = af.while_loop(
            lambda i, _: i < 3, lambda i, v: (i + 1, af.tanh(af.matmul(v, weights) @ af.ones([3, 4]))), [0, x]
        )
        y = af.nn.softmax(af.matmul(loop[1], weights), name="y")
        words = af.Variable(af.constant(["zero", "one", "two"]), trainable=False, name="words")
        label = af.gather(words, af.argmax(y, 1), name="label")
        loss = af.reduce_mean(y)
        train = af.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=steps)
        init = af.global_variables_initializer()
    signature = Signature({"x": x}, {"classes": label, "scores": y}, "classify")
    batch = np.arange(8, dtype=np.float32).reshape(2, 4)
    async with af.Session(graph=graph) as session:
        await session.run(init)
        expected = await session.run({"classes": label, "scores": y}, {x: batch})
        path = await save(session, tmp_path / "model", {"serving_default": signature})
        await session.run(train, {x: batch})  # what is saved does not change
    async with af.Session(graph=af.Graph()) as session:
        model = await load(path, session)
        found = await answers(model, session, batch)
        assert {name: value.tobytes() if name == "scores" else value.tolist() for name, value in found.items()} == {
            name: value.tobytes() if name == "scores" else value.tolist() for name, value in expected.items()
        }
        assert sorted(model.variables) == ["weights", "words"]  # nothing else is needed
        assert model.signatures["serving_default"].method == "classify"
        with session.graph.as_default():
            loss = af.reduce_mean(model.signatures["serving_default"].outputs["scores"] ** 2)
            assert af.trainable_variables() == [model.variables["weights"]]
            train = af.train.GradientDescentOptimizer(0.1).minimize(loss)
            again = af.global_variables_initializer()
        await session.run(again)  # keeps the values
        x = model.signatures["serving_default"].inputs["x"]
        before = await session.run(loss, {x: batch})
        await session.run(train, {x: batch})
        assert await session.run(loss, {x: batch}) < before


async def test_large_variables_are_mapped_until_they_change(tmp_path):
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [], name="x")
        table = af.Variable(af.fill([300_000], 2.0), name="table")
        y = table[7] * x
        init = table.initializer
    async with af.Session(graph=graph) as session:
        await session.run(init)
        path = await save(session, tmp_path, {"f": Signature({"x": x}, {"y": y})}, version=1)
    assert path == str(tmp_path / "1")
    async with af.Session(graph=af.Graph()) as session:
        model = await load(path, session)
        with session.graph.as_default():
            update = model.variables["table"].assign_add(af.ones([300_000]))
        (state,) = [each for each in session._engine.state.resources.alive() if isinstance(each, VariableState)]
        assert is_fixed(state.present())
        assert await session.run(model.signatures["f"].outputs["y"], {model.signatures["f"].inputs["x"]: 3.0}) == 6.0
        await session.run(update)
        assert not is_fixed(state.present())
    async with af.Session(graph=af.Graph()) as session:  # the file has not changed
        model = await load(path, session)
        assert (await session.run(model.variables["table"]))[0] == 2.0


async def test_versions_are_side_by_side_and_share_the_variables_of_a_named_container(tmp_path):
    try:
        await Line(2.0, container="shared-factor").save(tmp_path, 1)
        drop_shared(["shared-factor"])
        other = Line(5.0, container="shared-factor")
        await other.save(tmp_path, 2)
        drop_shared(["shared-factor"])
        async with af.Session(graph=af.Graph()) as session:
            first, second = await load(tmp_path / "1", session), await load(tmp_path / "2", session, name="second")
            assert (await answers(first, session, rows(3)))["y"].tolist() == [[6.0]]
            assert (await answers(second, session, rows(3)))["y"].tolist() == [[6.0]]  # the first gave it its value
            assert second.signatures["total"].outputs["y"].name == "second/y:0"
            await first.variables["bias"].load([1.0], session)  # in no container: each has its own
            await second.variables["factor"].load([4.0], session)
            assert (await answers(first, session, rows(3)))["y"].tolist() == [[13.0]]
            assert (await answers(second, session, rows(3)))["y"].tolist() == [[12.0]]
            third = await load(tmp_path / "1", session)
            assert third.signatures["total"].outputs["y"].name == "saved_model/y:0"
    finally:
        drop_shared(["shared-factor"])


async def test_an_input_that_is_computed_is_cut_only_where_every_signature_feeds_it(tmp_path):
    line = Line(3.0)
    tail = Signature({"product": line.product}, {"y": line.y})
    async with af.Session(graph=line.graph) as session:
        await session.run(line.init)
        alone = await save(session, tmp_path, {"tail": tail}, version=1)
        both = await save(
            session, tmp_path, {"tail": tail, "serving_default": line.signatures["serving_default"]}, version=2
        )
    async with af.Session(graph=af.Graph()) as session:
        model = await load(alone, session)
        assert [*model.variables] == ["bias"]
        found = model.signatures["tail"]
        assert (found.inputs["product"].op.type, found.inputs["product"].shape) == ("placeholder", line.product.shape)
        assert (await session.run(found.outputs["y"], {found.inputs["product"]: rows(7)})).tolist() == [[7.0]]
    async with af.Session(graph=af.Graph()) as session:
        model = await load(both, session)
        found = model.signatures["tail"]
        assert (await session.run(found.outputs["y"], {found.inputs["product"]: rows(7)})).tolist() == [[7.0]]
        assert (await answers(model, session, rows(7)))["y"].tolist() == [[21.0]]


async def test_assets_and_warm_up_requests_come_back(tmp_path):
    (tmp_path / "words").write_text("zero one")
    requests = [WarmUpRequest({"x": rows(1, 2)}), WarmUpRequest({"x": [[5.0]]}, "total")]
    path = await Line().save(tmp_path / "m", 1, assets={"words.txt": tmp_path / "words"}, warmup=requests)
    async with af.Session(graph=af.Graph()) as session:
        model = await load(path, session)
    assert text_of(model.assets["words.txt"]) == "zero one"
    assert [(each.signature, each.inputs["x"].tolist()) for each in model.warmup] == [
        ("serving_default", [[1.0], [2.0]]),
        ("total", [[5.0]]),
    ]


async def test_all_variables_are_of_one_moment_between_steps(tmp_path):
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [], name="x")
        first, second = af.Variable(0.0, name="first"), af.Variable(0.0, name="second")
        train = af.group(first.assign_add(1.0).op, second.assign_add(1.0).op)
        y = x + first - second
        init = af.global_variables_initializer()
    async with af.Session(graph=graph) as session:
        await session.run(init)

        async def trains():
            for _ in range(40):
                await session.run(train)

        async with asyncio.TaskGroup() as group:
            group.create_task(trains())
            await turns(7)
            path = await save(session, tmp_path, {"f": Signature({"x": x}, {"y": y})}, version=1)
    async with af.Session(graph=af.Graph()) as session:
        model = await load(path, session)
        a, b = await session.run([model.variables["first"], model.variables["second"]])
        assert a == b


async def test_bad_arguments_of_save_say_what_is_expected(tmp_path):
    line, other = Line(), Line()
    with line.graph.as_default():
        local = af.py_func(lambda x: x, [line.x], af.float32)
        unset = af.Variable(1.0, name="unset")
    signatures = line.signatures
    async with af.Session(graph=line.graph) as session:
        await session.run(line.init)
        path = await save(session, tmp_path, signatures, version=1)
        for error, text, arguments in [
            (errors.AlreadyExistsError, "never changed", (signatures,)),
            (ValueError, "another graph", (other.signatures,)),
            (ValueError, "needs signatures", ({},)),
            (TypeError, "by name", ({"f": line.y},)),
            (ValueError, "exists only in this process", ({"f": Signature({"x": line.x}, {"y": local})},)),
            (
                errors.FailedPreconditionError,
                "'unset' is not initialized",
                ({"f": Signature({}, {"y": unset.value()})},),
            ),
        ]:
            with pytest.raises(error, match=text):
                await save(session, path if error is errors.AlreadyExistsError else tmp_path / "new", *arguments)
        for wrong in ({"assets": ["a"]}, {"warmup": 3}, {"warmup": WarmUpRequest({"x": rows(1)})}):
            with pytest.raises(TypeError, match=f"{next(iter(wrong))} must be"):
                await save(session, tmp_path / "new", signatures, **wrong)
        with pytest.raises(ValueError, match=r"warm-up request 0 has the inputs z .*\(x: float32\[\?, 1\]\)"):
            await save(session, tmp_path / "new", signatures, warmup=[WarmUpRequest({"z": rows(1)})])
        with pytest.raises(ValueError, match=r"gives 'x', which is float32\[\?, 1\], shape \[1, 2\]"):
            await save(session, tmp_path / "new", signatures, warmup=[WarmUpRequest({"x": [[1, 2]]})])
        with pytest.raises(errors.InvalidArgumentError, match="cannot be the name of an asset"):
            await save(session, tmp_path / "new", signatures, assets={"../x": path})
        with pytest.raises(errors.NotFoundError, match="missing-file"):
            await save(session, tmp_path / "new", signatures, assets={"x": tmp_path / "missing-file"})
        for version in (-1, 10**18, True):  # a server finds no folder with more digits
            with pytest.raises(ValueError, match="a version is a number"):
                await save(session, tmp_path, signatures, version=version)
    assert [entry.name for entry in tmp_path.iterdir()] == ["1"]  # nothing is left of what failed


def test_a_signature_says_what_does_not_fit():
    line = Line()
    for error, text, arguments in [
        (TypeError, "tensors by name", ([line.x], {"y": line.y})),
        (TypeError, "is a tensor", ({"x": line.x}, {"y": line.factor})),
        (TypeError, "names of at least one letter", ({"": line.x}, {"y": line.y})),
        (ValueError, "at least one output", ({"x": line.x}, {})),
        (ValueError, "one graph", ({"x": line.x}, {"y": Line().y})),
        (ValueError, "one tensor", ({"x": line.x, "z": line.x}, {"y": line.y})),
        (ValueError, "method is one of", ({"x": line.x}, {"y": line.y}, "guess")),
        (ValueError, "classes and scores, not y", ({"x": line.x}, {"y": line.y}, "classify")),
        (ValueError, "a bool output", ({"x": line.x}, {"y": line.y}, "predict", "y")),
        (ValueError, "is fed to the input", ({"x": line.x}, {"x": line.total, "more": line.more}, "predict", "more")),
    ]:
        with pytest.raises(error, match=text):
            Signature(*arguments)
