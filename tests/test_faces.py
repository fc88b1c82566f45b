"""The public modules: what they list, what a wrong name says, what an import costs."""

import importlib
import inspect
import json
import pydoc
import re
import subprocess
import sys
import types

import pytest

import aioflow as af
from aioflow import name_hints
from aioflow.graph.op import REGISTRY

FACES = [*name_hints.SHOWN]


def fresh(code):
    """What a program prints, as JSON, that runs in a process of its own."""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return json.loads(run.stdout)


@pytest.mark.whole
@pytest.mark.parametrize("face", FACES)
def test_dir_shows_what_is_public_and_all_of_it_is_there(face):
    module = importlib.import_module(face)
    assert dir(module) == sorted(module.__all__)
    assert [name for name in dir(module) if not hasattr(module, name)] == []


def test_of_modules_the_top_shows_the_public_ones_alone():
    modules = {name for name in dir(af) if isinstance(getattr(af, name), types.ModuleType)}
    public = {shown.split(".")[1] for shown in name_hints.SHOWN.values() if shown.count(".") == 1}
    assert modules == public | {"sparse_names"}


@pytest.mark.whole
@pytest.mark.parametrize("face", FACES)
def test_no_public_name_is_that_of_another_module_of_the_folder(face):
    module = importlib.import_module(face)
    inner = (
        {name for name in dir(module) if importlib.util.find_spec(f"{face}.{name}")} if _is_folder(module) else set()
    )
    assert {name for name in inner if getattr(module, name).__name__ != f"{face}.{name}"} == set()


def _is_folder(module):
    return hasattr(module, "__path__")


def test_the_version_is_there():
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", af.__version__)


@pytest.mark.parametrize(
    ("face", "name", "hint"),
    [
        (af.layers, "Dence", "did you mean af.layers.Dense?"),
        (af, "relu", "did you mean af.activations.relu or af.nn.relu?"),
        (af, "Sesion", "did you mean af.Session?"),
        (af, "contrib", "af.collectives"),
        (af, "InteractiveSession", "async with af.Session()"),
        (af, "estimator", "af.train.MonitoredTrainingSession"),
        (af, "keras", "af.Sequential"),
        (af.data.experimental, "AutoShardPolicy", "Dataset.shard"),
        (af, "flags", "argparse"),
        (af.nn, "reluu", "did you mean af.nn.relu?"),
        (af.train, "AdamOptimiser", "did you mean af.train.AdamOptimizer?"),
        (af.saved_model, "SaveOptions", "af.saved_model.save"),
        (af.errors, "OutOfRange", "did you mean af.errors.OutOfRangeError?"),
    ],
)
def test_a_wrong_name_says_the_right_one(face, name, hint):
    with pytest.raises(AttributeError, match=re.escape(hint)):
        getattr(face, name)


def test_a_name_that_nothing_is_like_gets_no_hint():
    with pytest.raises(AttributeError, match=r"no attribute 'zzyzx'$"):
        af.zzyzx  # noqa: B018


def test_hints_name_what_exists():
    named = {name for text in name_hints.INSTEAD.values() for name in re.findall(r"\baf(?:\.\w+)+", text)}
    assert [name for name in named if not _found(name)] == []


def test_there_are_hints_only_for_what_does_not_exist():
    assert [name for name in name_hints.INSTEAD if _found(name)] == []


def _found(path):
    value = af
    for name in path.split(".")[1:]:
        value = getattr(value, name, None)
    return value is not None


async def test_arguments_of_tensorflow_say_what_they_are_called_here():
    graph = af.Graph()
    with graph.as_default():
        x = af.constant(1.0)
        v = af.Variable(1.0)
    async with af.Session(graph=graph) as session:
        with pytest.raises(TypeError, match=r"run\(\) got an unexpected keyword argument 'feed_dict'; use feeds"):
            await session.run(x, feed_dict={})
        with pytest.raises(TypeError, match="use metadata"):
            await session.run(x, run_metadata=None)
        with pytest.raises(TypeError, match="use feeds"):
            session.make_callable(x, feed_list=[])
        for element in (x, v):
            with pytest.raises(TypeError, match="use feeds"):
                await element.eval(feed_dict={})
        with pytest.raises(TypeError, match=r"session.as_default\(\)"):
            await x.op.run(session=session)
        with pytest.raises(TypeError, match=r"argument 'colour'$"):
            await session.run(x, colour="red")


def test_an_op_reads_as_a_function():
    shown = " ".join(pydoc.render_doc(af.matmul, renderer=pydoc.plaintext).split())  # Python 3.13 breaks the signature
    assert "a: aioflow.graph.convert.TensorLike, b: aioflow.graph.convert.TensorLike, transpose_a" in shown
    assert "The matrix product of a and b" in shown
    assert "functools" not in shown
    assert "class Op" not in shown


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (af.tanh, "(x, name=None)"),
        (
            af.reduce_sum,
            "(input_tensor, axis=None, keepdims=None, name=None, *, keep_dims=None, reduction_indices=None)",
        ),
        (af.argmax, "(input, axis=None, name=None, output_type=af.int64, *, dimension=None)"),
    ],
)
def test_a_signature_shows_parameters_with_their_defaults(function, shown):
    signature = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(plain)) == shown
    assert signature.return_annotation is af.Tensor


def test_a_signature_shows_how_many_tensors_there_are():
    assert inspect.signature(af.unique).return_annotation == tuple[af.Tensor, af.Tensor]
    assert inspect.signature(af.no_op).return_annotation is af.Operation


# What an import costs


def test_importing_aioflow_imports_hardly_anything():
    code = "import sys, json, aioflow; print(json.dumps(sorted(sys.modules)))"
    loaded = [module for module in fresh(code) if module.partition(".")[0] in ("aioflow", "asyncio", "numpy")]
    assert loaded == ["aioflow", "aioflow.lazy"]


def test_operators_are_found_when_they_are_used():
    code = """
import json, aioflow as af
x = af.placeholder(af.float32, [2])
y = (x + 1 > 2) & (-x[0] < 3)
s = af.SparseTensor([[0]], [1.0], [2]) * x
print(json.dumps([y.op.type, type(s).__name__]))
"""
    assert fresh(code) == ["logical_and", "SparseTensor"]


def test_a_graph_def_may_name_any_op():
    code = """
import json
from aioflow.graph.op import REGISTRY
found = "matmul" in REGISTRY
REGISTRY.complete()
print(json.dumps([found, sorted(REGISTRY)]))
"""
    mine = sorted(name for name, op in REGISTRY.items() if op.__module__.startswith("aioflow."))
    assert fresh(code) == [False, mine]


def test_an_imported_graph_has_the_gradients_of_its_branches_and_loops():
    graph = af.Graph()
    with graph.as_default():
        x = af.placeholder(af.float32, [], name="x")
        y = af.cond(x > 0, lambda: x * 2, lambda: x * 3)
        af.identity(af.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * x), [0, y])[1], name="y")
    code = f"""
import json, aioflow as af
graph = af.Graph()
with graph.as_default():
    af.import_graph_def(af.GraphDef.from_msgpack({graph.as_graph_def().to_msgpack()!r}), name="")
    slopes = af.gradients(graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0"))
print(json.dumps([slope is not None for slope in slopes]))
"""
    assert fresh(code) == [True]
