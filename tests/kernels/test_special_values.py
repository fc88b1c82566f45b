"""Results of ops for zeros, infinities, NaN, denormals and extreme integers: NumPy's, or those listed here.

Every sample of an elementwise, reducing or ordering op with a reference runs on special values in place of its own.
`OTHERWISE` lists the ops that differ from their reference there, each with its result.
"""

import numpy as np
import pytest

import aioflow as af
from aioflow import errors
from tests.support.evaluate import evaluate
from tests.support.every_op import OURS, build, every_op

INF, NAN = np.inf, np.nan
FLOATS = np.array([0.0, NAN, -0.0, INF, 1.0, -INF, -1.0, 0.5, 1.5, 2.5, 5e-324, -5e-324, 1.7e308, -1.7e308, 800.0])
ALONG_AN_AXIS = (
    "argmax", "argmin", "argsort", "cumsum", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_sum", "softmax", "sort",
)  # fmt: skip
OTHERWISE = {
    "bessel_k1e": "infinite at denormals where SciPy has NaN",
    "cumulative_logsumexp": "0 and -0 are not told apart",
    "div_no_nan": "0 where y is 0",
    "expint": "NaN below 0, as TensorFlow's",
    "fresnel_cos": "its limits where SciPy has NaN",
    "fresnel_sin": "its limits where SciPy has NaN",
    "igamma": "its limits where SciPy has NaN",
    "igammac": "its limits where SciPy has NaN",
    "lgamma": "infinite at -inf, as TensorFlow's",
    "multiply_no_nan": "0 where y is 0",
    "polygamma": "denormals are taken for 0 on their side",
    "rsqrt": "-inf at -0, as 1 / sqrt(-0)",
    "selu_grad": "a denormal is rounded once",
    "spence": "its limit where SciPy has NaN",
    "xdivy": "0 where x is 0",
    "xlog1py": "0 where x is 0",
    "xlogy": "0 where x is 0",
    "zeta": "0 at infinity",
}


def integers(dtype):
    limits = np.iinfo(dtype)
    bits = limits.bits
    found = [0, 1, 2, 7, bits - 1, bits, bits + 1, limits.max - 1, limits.max, limits.min, limits.min + 1]
    return np.array(found + ([-1, -2, -bits] if limits.min else [3, 4, 5]), dtype)


def fillings(inputs, whole):
    """The inputs with special values in place of all floats, and of integers if `whole`."""
    arrays = [np.asarray(value) for value in inputs]
    for start in range(len(FLOATS)):
        yield [_filled(a, start + 7 * number, whole) for number, a in enumerate(arrays)]


def _filled(array, start, whole):
    if array.dtype.kind == "f":
        specials = FLOATS
    elif array.dtype.kind in "iu" and whole:
        specials = integers(array.dtype)
    else:
        return array
    with np.errstate(over="ignore"):
        return specials[(start + np.arange(array.size)) % len(specials)].reshape(array.shape).astype(array.dtype)


def by_element(name, sample):
    return name in OURS and OURS[name].elementwise


def compared(name, sample):
    kinds = {np.asarray(value).dtype.kind for value in sample.inputs}
    listed = by_element(name, sample) or name in ALONG_AN_AXIS
    return sample.reference and listed and name not in OTHERWISE and kinds & set("fiu") and "c" not in kinds


@every_op(compared)
def test_special_values_give_the_results_of_the_reference(name, sample):
    _, outputs, feeds = build(sample)
    tried = 0
    for arrays in fillings(sample.inputs, by_element(name, sample)):
        try:
            values = evaluate(outputs, dict(zip(feeds, arrays, strict=True)))
        except (errors.InvalidArgumentError, ValueError):  # as integers divided by zero
            continue
        with np.errstate(all="ignore"):
            expected = sample.reference(*arrays)
        tried += 1
        expected = expected if isinstance(expected, (list, tuple)) and len(outputs) != 1 else [expected]
        for ours, theirs in zip(values, expected, strict=True):
            same(ours, theirs, arrays)
    assert tried


def same(ours, theirs, arrays):
    try:
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
    except AssertionError as error:  # to write the arrays down takes longer than to compare
        error.add_note(f"of {arrays}")
        raise


def f(*values, dtype=af.float32):
    return af.constant(np.array(values, dtype.np))


def i(*values, dtype=af.int32):
    return af.constant(np.array(values, dtype.np))


LOW = -(2**31)
WRITTEN = {
    "floordiv of infinities": (lambda: af.floordiv(f(INF, -INF, 1, -1, 1, -1, 0), f(1, 1, INF, INF, 0, 0, 0)),
                               [NAN, NAN, 0, -1, INF, -INF, NAN]),
    "mod of infinities": (lambda: af.mod(f(INF, 1, -1, 1, 5), f(1, INF, INF, 0, -INF)), [NAN, 1, INF, NAN, -INF]),
    "truncatemod of infinities": (lambda: af.truncatemod(f(INF, 1, -1, 1), f(1, INF, INF, 0)), [NAN, 1, -1, NAN]),
    "the smallest integer by -1": (lambda: af.floordiv(i(LOW), i(-1)), [LOW]),
    "the smallest integer by -1, cut off": (lambda: af.truncatediv(i(LOW), i(-1)), [LOW]),
    "the rest of the smallest integer by -1": (lambda: af.mod(i(LOW), i(-1)), [0]),
    "abs of the smallest integer": (lambda: af.abs(i(LOW)), [LOW]),
    "argmax finds the first NaN": (lambda: af.argmax(f(1, NAN, INF, NAN), 0), 1),
    "argmin finds the first NaN": (lambda: af.argmin(f(1, NAN, -INF, NAN), 0), 1),
    "top_k takes NaN for the greatest": (lambda: af.nn.top_k(f(1, NAN, INF, -INF, NAN), 4)[1], [1, 4, 2, 0]),
    "sort puts NaN last": (lambda: af.sort(f(NAN, 1, -INF, INF)), [-INF, 1, INF, NAN]),
    "sort falling puts NaN first": (lambda: af.sort(f(1, NAN, INF), direction="DESCENDING"), [NAN, INF, 1]),
    "left shifts beyond the width": (lambda: af.bitwise.left_shift(i(1, 1, 1, -1), i(31, 32, -1, 99)),
                                     [LOW, 0, 0, 0]),
    "right shifts beyond the width": (lambda: af.bitwise.right_shift(i(8, -8, 8, -8), i(32, 32, -1, -1)),
                                      [0, -1, 0, -1]),
    "bytes shifted": (lambda: af.bitwise.left_shift(i(1, 1, 1, dtype=af.uint8), i(7, 8, 255, dtype=af.uint8)),
                      [128, 0, 0]),
    "denormals are true": (lambda: af.cast(f(1e-45, -1e-45, 0, -0.0, NAN), af.bool), [True, True, False, False, True]),
    "halves' denormals are true": (lambda: af.cast(f(6e-8, 0, dtype=af.float16), af.bool), [True, False]),
    "saturated": (lambda: af.saturate_cast(f(NAN, INF, -INF, 300, -129), af.int8), [0, 127, -128, 127, -128]),
    "xlogy": (lambda: af.xlogy(f(0, 0, 0, 0, 1, 1), f(0, NAN, INF, -1, 0, -1)), [0, 0, 0, 0, -INF, NAN]),
    "xlog1py": (lambda: af.math.xlog1py(f(0, 0, 0, 0, 1, 1), f(-1, NAN, INF, -2, -1, -2)), [0, 0, 0, 0, -INF, NAN]),
    "Fresnel's integrals far out": (lambda: af.stack([af.math.special.fresnel_cos(f(INF, -INF, 1e38)),
                                                      af.math.special.fresnel_sin(f(INF, -INF, 1e38))]),
                                    [[0.5, -0.5, 0.5]] * 2),
    "spence": (lambda: af.math.special.spence(f(0, 1, INF, -1, NAN)), [np.pi**2 / 6, 0, -INF, NAN, NAN]),
    "expint": (lambda: af.math.special.expint(f(0, INF, -1, NAN, 800)), [-INF, INF, NAN, NAN, INF]),
    "bessel_k1e": (lambda: af.math.special.bessel_k1e(f(0, 1e-45, INF, -1, NAN)), [INF, INF, 0, NAN, NAN]),
    "xdivy": (lambda: af.xdivy(f(0, 0, 0, 1, -1), f(0, NAN, INF, 0, INF)), [0, 0, 0, INF, -0.0]),
    "multiply_no_nan": (lambda: af.multiply_no_nan(f(INF, NAN, 1, INF), f(0, 0, NAN, 2)), [0, 0, NAN, INF]),
    "div_no_nan": (lambda: af.div_no_nan(f(1, INF, NAN, 0), f(0, 0, 0, 0)), [0, 0, 0, 0]),
    "halves to even": (lambda: af.round(f(0.5, 1.5, 2.5, -0.5)), [0, 2, 2, -0.0]),
    "sign of NaN": (lambda: af.sign(f(NAN, -0.0, -INF)), [NAN, 0, -1]),
    "the greater of NaN": (lambda: af.maximum(f(NAN, 1), f(1, NAN)), [NAN, NAN]),
    "NaN clipped": (lambda: af.clip_by_value(f(NAN, INF, -INF), 0.0, 1.0), [NAN, 1, 0]),
    "each NaN is distinct": (lambda: af.unique(f(NAN, 1, NAN, -0.0, 0))[1], [0, 1, 2, 3, 3]),
    "powers": (lambda: af.pow(f(0, 0, -8, INF, 1, NAN), f(0, -1, 1 / 3, 0, NAN, 0)), [1, INF, NAN, 1, 1, 1]),
    "sum of nothing": (lambda: af.reduce_sum(f()), 0),
    "product of nothing": (lambda: af.reduce_prod(f()), 1),
    "mean of nothing": (lambda: af.reduce_mean(f()), NAN),
    "mean of no integers": (lambda: af.reduce_mean(i()), 0),
    "maximum of nothing": (lambda: af.reduce_max(f()), -INF),
    "maximum of no integers": (lambda: af.reduce_max(i()), LOW),
    "logsumexp of nothing": (lambda: af.reduce_logsumexp(f()), -INF),
    "logsumexp of -inf": (lambda: af.reduce_logsumexp(f(-INF, -INF)), -INF),
    "logsumexp of both infinities": (lambda: af.reduce_logsumexp(f(-INF, INF)), INF),
    "softmax of -inf": (lambda: af.nn.softmax(f(-INF, 1)), [0, 1]),
    "softmax of inf": (lambda: af.nn.softmax(f(INF, 1)), [NAN, NAN]),
    "an empty segment": (lambda: af.segment_max(f(1, 2, 3), i(0, 0, 2)), [2, 0, 3]),
    "atan2 on the cut": (lambda: af.atan2(f(0, -0.0, INF), f(-0.0, -0.0, INF)), [np.pi, -np.pi, np.pi / 4]),
}  # fmt: skip


@pytest.mark.parametrize("what", WRITTEN)
def test_special_values_give_the_listed_results(what):
    made, expected = WRITTEN[what]
    with af.Graph().as_default():
        np.testing.assert_allclose(evaluate(made()), expected, rtol=1e-6)


REFUSED = {
    "an integer by zero": (lambda: af.floordiv(i(1), i(0)), "integer division by zero"),
    "the rest of an integer by zero": (lambda: af.mod(i(1), i(0)), "integer division by zero"),
    "an integer by zero, cut off": (lambda: af.truncatediv(i(1), i(0)), "integer division by zero"),
    "an integer to a negative power": (lambda: af.pow(i(2), i(-1)), "negative integer powers"),
    "argmax of nothing": (lambda: af.argmax(f(), 0), "is empty"),
    "ranks that differ": (lambda: af.concat([af.zeros([2]), af.zeros([2, 2])], 0), "of one rank .* not of ranks 1, 2"),
    "ranks around an open one": (
        lambda: af.concat([af.zeros([2]), af.placeholder(af.float32), af.zeros([2, 2])], 0), "not of ranks 1, 2"),
    "a number among others": (lambda: af.concat([af.zeros([2]), af.constant(1.0)], 0), "not of ranks 1, 0"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_undefined_results_are_refused(what):
    made, text = REFUSED[what]
    with af.Graph().as_default(), pytest.raises((ValueError, errors.InvalidArgumentError), match=text):
        evaluate(made())
