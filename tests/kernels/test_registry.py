"""What holds for every op of the registry. Each is tried on the samples that the modules of `samples` give for it."""

import fnmatch
import inspect

import ml_dtypes
import numpy as np
import pytest

from aioflow.autodiff.gradients import gradients
from aioflow.graph.indexed_slices import dense
from aioflow.kernels.array.constants import constant
from aioflow.kernels.control.control_flow import DEAD
from aioflow.tensors.dtypes import DeviceKind
from aioflow.testing import check_gradients
from tests.kernels.samples import SAMPLES, Sample
from tests.support.evaluate import bound, evaluate
from tests.support.every_op import OURS, agree, build, every_op, exact, is_differentiable, open_sizes, unknown_rank

NEEDS_SESSION = {
    "absent": "nobody looks at what it makes",
    "argument": "it is given by what holds the body",
    "feed": "only plans contain it",
    "no_records": "only plans contain it",
    "recorded": "only plans contain it",
    "replayed": "only plans contain it",
    "pulse": "only plans contain it",
    "recv": "only plans contain it",
    "send": "only plans contain it",
    "to_device": "only plans contain it",
    "to_host": "only plans contain it",
    "swap_free": "only plans contain it",
    "placeholder": "every sample is made of fed ones",
    "*variable*": "it reads or changes the state of a session",
    "*queue*": "it moves elements from step to step",
    "*accumulator*": "it adds up what several steps give",
    "*reader*": "it reads what a queue names",
    "*table*": "it reads or changes what a session looks up",
    "*_file*": "it reads or writes files",
    "*_checkpoint": "it reads or writes files",
    "restore_tensor": "it reads files",
    "stored_names": "it reads files",
    "save_shard": "it writes files",
    "*run_counts": "it tells or changes how often operations ran in a session",
    "*session_*": "it keeps, takes or deletes what stays in a session",
    "row_batches": "it puts the rows of several steps together",
    "batch": "it puts the rows of several steps together",
    "unbatch*": "it divides what several steps have together",
    "barrier*": "it puts together what several steps insert",
    "lossy_encode_top_k": "it keeps from step to step what it leaves out",
    "lossy_keep": "it decides what is kept from step to step",
    "lossy_residual": "it keeps from step to step what is left out",
    "map_*stag*": "it keeps what a step puts for another",
    "map_clear": "it keeps what a step puts for another",
    "map_*size": "it keeps what a step puts for another",
    "map_peek": "it keeps what a step puts for another",
    "stage": "it keeps what a step puts for another",
    "stage_*": "it keeps what a step puts for another",
    "staging_area": "it keeps what a step puts for another",
    "unstage": "it keeps what a step puts for another",
    "apply_*": "it changes variables",
    "print": "it counts how often it has printed in a session",
    "replica_*": "it keeps what several replicas agree on",
    "py_func": "it waits for a Python function",
    "*iterator*": "it takes the elements of a dataset",
    "sparse_apply_*": "it changes variables",
    "stack_*_v2": "what is pushed and popped is told by control edges",
    "stack_v2": "what is pushed and popped is told by control edges",
}
NO_KERNEL = {
    "cond": "it is compiled or lowered",
    "while_loop": "it is compiled or lowered",
}


def has_floats(name, sample):
    return any(np.asarray(value).dtype == np.float64 for value in sample.inputs)


def refines(value, spec):
    value = np.asarray(value)
    assert value.dtype == spec.dtype.np
    assert spec.shape.is_compatible_with(value.shape), f"{spec} is not what the kernel gave: {value.shape}"
    if spec.known is not None:
        for known, element in zip(np.atleast_1d(np.array(spec.known, object)), np.atleast_1d(value), strict=True):
            assert known in (None, element)


def listed(name, reasons):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in reasons)


# Declarations


def test_every_op_says_what_it_is():
    assert [name for name, op in OURS.items() if not inspect.cleandoc(op.__doc__ or "").strip()] == []


def test_every_op_has_a_gradient_or_a_reason_why_not():
    assert [n for n, op in OURS.items() if (op.gradient_rule is None) == (op.gradient_reason is None)] == []


def test_every_op_has_a_kernel_for_the_cpu_or_a_reason_why_not():
    assert [n for n, op in OURS.items() if (DeviceKind.CPU in op.kernels) == listed(n, NO_KERNEL)] == []


def test_every_op_has_samples_or_a_reason_why_not():
    assert [name for name in OURS if (name in SAMPLES) == listed(name, NEEDS_SESSION)] == []


# Values and shapes


@every_op(lambda name, sample: sample.reference)
def test_values_are_those_of_the_reference(name, sample):
    _, outputs, feeds = build(sample)
    expected = sample.reference(*sample.inputs)
    expected = expected if isinstance(expected, (list, tuple)) and len(outputs) != 1 else [expected]
    for scalars in (feeds, {tensor: value[()] for tensor, value in feeds.items()}):
        values = evaluate(outputs, scalars)
        assert len(values) == len(expected)
        for ours, theirs in zip(values, expected, strict=True):
            agree(ours, theirs)
            assert np.shape(ours) == np.shape(theirs)


@every_op(variants=[exact, open_sizes, unknown_rank])
def test_real_shapes_and_dtypes_refine_the_static_ones(name, sample, sizes):
    try:
        graph, _, feeds = build(sample, sizes)
    except ValueError:  # it may insist on a known rank
        assert sizes is unknown_rank
        return
    tensors = [tensor for op in graph.get_operations() for tensor in op.outputs]
    shapes = {}
    for tensor, value in zip(tensors, evaluate(tensors, feeds), strict=True):
        if value is DEAD:
            continue
        refines(value, tensor.spec)
        if not tensor.shape.is_fully_defined():
            same = shapes.setdefault(id(tensor.shape), np.shape(value))
            assert same == np.shape(value), f"{tensor} shares its shape object with a tensor of shape {same}"


@every_op(has_floats, variants=[np.float32, np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_refused_or_stay_what_the_shape_rule_says(name, sample, wanted):
    arrays = [np.asarray(value) for value in sample.inputs]
    try:
        _, outputs, feeds = build(
            sample, values=[array.astype(wanted) if array.dtype == np.float64 else array for array in arrays]
        )
    except TypeError:
        return
    values = evaluate(outputs, feeds)
    for output, value in zip(outputs, values, strict=True):
        refines(value, output.spec)
    if wanted is np.float32:
        _, outputs, feeds = build(sample)
        for value, precise in zip(values, evaluate(outputs, feeds), strict=True):
            if np.asarray(precise).dtype.kind in "fc":
                agree(value, precise, rtol=1e-3, atol=1e-4)


# Kernels


@every_op()
def test_kernels_keep_their_promises(name, sample):
    graph, _, feeds = build(sample)
    for operation in [op for op in graph.get_operations() if op.type == name]:
        arguments = evaluate(list(operation.inputs), feeds)
        for kernel in operation.definition.kernels.get(DeviceKind.CPU, ()):
            if kernel.dtypes is None or all(tensor.dtype in kernel.dtypes for tensor in operation.inputs):
                keeps_its_promises(kernel, bound(kernel, operation), arguments)


def keeps_its_promises(kernel, call, arguments):
    before = [np.array(argument) for argument in arguments]
    with np.errstate(all="ignore"):
        result = call(*arguments)
        for argument, copy in zip(arguments, before, strict=True):
            np.testing.assert_array_equal(argument, copy, err_msg="the kernel writes into its input")
        if kernel.fresh:
            values = result if isinstance(result, (list, tuple)) else [result]
            assert not any(np.shares_memory(value, argument) for value in values for argument in arguments)
        if kernel.out:
            result = np.array(result)
            agree(call(*arguments, out=np.empty_like(result)), result, rtol=0)
            for place, argument in enumerate(before):
                if argument.shape == result.shape and argument.dtype == result.dtype:
                    copies = [copy.copy() for copy in before]
                    agree(call(*copies, out=copies[place]), result, rtol=0)


# Gradients


@every_op(is_differentiable, most=1)
async def test_gradients_agree_with_differences_to_second_order(name, sample):
    await check_gradients(sample.build, sample.inputs, compute=evaluate)


def derivatives(sample, shape_of):
    """First and second derivatives of the sample's outputs, weighted by cosines, with respect to its inputs."""
    graph, outputs, feeds = build(sample, shape_of)
    with graph.as_default():
        first = along(outputs, feeds)
        second = along(first, feeds)
    return evaluate(first, feeds), evaluate(second, feeds)


def along(outputs, feeds):
    moved = [output for output in outputs if output.dtype.is_differentiable]
    weights = [np.cos(np.arange(value.size)).reshape(value.shape) for value in map(np.asarray, evaluate(moved, feeds))]
    weights = [constant(weight, output.dtype) for weight, output in zip(weights, moved, strict=True)]
    xs = [tensor for tensor in feeds if tensor.dtype.is_differentiable]
    return [dense(gradient) for gradient in gradients(moved, xs, weights, unconnected_gradients="zero")]


@every_op(is_differentiable, variants=[open_sizes, unknown_rank], most=1)
def test_gradients_do_not_depend_on_what_is_known_of_shapes(name, sample, sizes):
    try:
        found = derivatives(sample, sizes)
    except ValueError:
        if sizes is unknown_rank:
            return
        raise
    for ours, theirs in zip(found, derivatives(sample, exact), strict=True):
        for value, expected in zip(ours, theirs, strict=True):
            agree(value, expected)


# The tests themselves


def test_all_samples_that_break_a_law_are_named(monkeypatch):
    monkeypatch.setitem(SAMPLES, "counted", [Sample(None, (number,)) for number in range(4)])

    @every_op(lambda name, sample: name == "counted" and sample.inputs != (1,), variants=[exact])
    def law(name, sample, sizes):
        assert sample.inputs[0] == 0

    with pytest.raises(ExceptionGroup, match="samples of 'counted' fail: counted-2 exact, counted-3 exact"):
        law("counted")
