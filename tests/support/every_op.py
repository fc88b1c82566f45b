"""Laws of all ops: each becomes one test for each file of ops, which tries all samples and names all that fail."""

import contextlib
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

from aioflow import kernels
from aioflow.graph.graph import Graph
from aioflow.graph.op import REGISTRY
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.constants import placeholder
from aioflow.tensors.dtypes import as_dtype
from tests.kernels import samples
from tests.kernels.samples import SAMPLES
from tests.support.scale import pairs, some

for package in (kernels, samples):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

OURS = {name: op for name, op in REGISTRY.items() if op.__module__.startswith("aioflow.")}


def every_op(wanted=lambda name, sample: True, variants=(None,), most=1000):
    """Make of a law on `(name, sample)`, or `(name, sample, variant)`, a test for each file of ops.

    It tries all samples of that kind with each variant. A short run tries at most `most` samples of each op, each with
    one variant, in turn.
    """

    def decorate(law):
        def trials(family):
            for (op, number, sample), variant in pairs(list(samples(family)), variants):
                more = () if variant is None else (variant,)
                yield " ".join([f"{op}-{number}", *(each.__name__ for each in more)]), (op, sample, *more)

        def samples(family):
            for op in (op for op in sorted(SAMPLES) if _family(op) == family):
                chosen = [(op, number, sample) for number, sample in enumerate(SAMPLES[op]) if wanted(op, sample)]
                yield from some(chosen, most)

        test = (_waiting if inspect.iscoroutinefunction(law) else _immediate)(law, trials)
        test.__name__, test.__doc__, test.__module__ = law.__name__, law.__doc__, law.__module__
        families = {_family(op) for op in SAMPLES if any(wanted(op, sample) for sample in SAMPLES[op])}
        return pytest.mark.parametrize("family", sorted(families))(test)

    return decorate


def _family(op):
    """The file that declares the op, `math.reduction`; the name of what is no op, but composed of ops."""
    return REGISTRY[op].__module__.removeprefix("aioflow.kernels.") if op in REGISTRY else op


def _immediate(law, trials):
    def test(family):
        with _failing_together(family) as attempt:
            for label, arguments in trials(family):
                with attempt(label):
                    law(*arguments)

    return test


def _waiting(law, trials):
    async def test(family):
        with _failing_together(family) as attempt:
            for label, arguments in trials(family):
                with attempt(label):
                    await law(*arguments)

    return test


@contextlib.contextmanager
def _failing_together(family):
    """A context for each attempt. The errors of all of them are raised at the end, each with its label."""
    failures = []

    @contextlib.contextmanager
    def attempt(label):
        try:
            yield
        except Exception as error:
            error.add_note(f"the sample is {label}")
            failures.append(error)

    yield attempt
    if failures:
        labels = ", ".join(error.__notes__[-1].removeprefix("the sample is ") for error in failures)
        raise ExceptionGroup(f"samples of {family!r} fail: {labels}", failures)


def is_differentiable(name, sample):
    moved = any(np.asarray(value).dtype.kind in "fc" for value in sample.inputs)
    return moved and sample.gradient and (name not in OURS or OURS[name].gradient_rule)


def build(sample, shape_of=np.shape, values=None):
    """The sample built on placeholders: the graph, its output tensors, the feeds."""
    arrays = [np.asarray(value) for value in sample.inputs] if values is None else values
    with Graph().as_default() as graph:
        feeds = {placeholder(as_dtype(a.dtype), shape_of(a)): a for a in arrays}
        result = sample.build(*feeds)
    outputs = result if isinstance(result, (list, tuple)) else [result]
    return graph, [output for output in outputs if isinstance(output, Tensor)], feeds


def exact(array):
    return array.shape


def open_sizes(array):
    return [None] * array.ndim


def unknown_rank(array):
    return None


def agree(ours, theirs, rtol=1e-9, atol=1e-12):
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if theirs.dtype.kind in "fciu" and ours.dtype.kind in "fciu":
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(ours, theirs)
