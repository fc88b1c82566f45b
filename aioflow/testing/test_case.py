"""`af.test.TestCase`: unittest's asynchronous test case, with a graph for each test and comparisons of arrays."""

import contextlib
import re
import tempfile
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from aioflow import errors
from aioflow.config import Config
from aioflow.graph.building import get_default_graph
from aioflow.graph.graph import Graph
from aioflow.graph.operation import Operation, Tensor
from aioflow.session import Session, get_default_session
from aioflow.tensors.as_array import AnyArray
from aioflow.tensors.dtypes import DTypeLike, as_dtype

Matcher: TypeAlias = str | Callable[[BaseException], bool]
"""A regular expression that is found in the text of an error, or a function of the error."""
_HALF: Final = ("float16", "bfloat16")


class TestCase(unittest.IsolatedAsyncioTestCase):
    """A test case whose tests may await. Each test has a default graph of its own.

        class SquareTest(af.test.TestCase):
            async def test_square(self):
                async with self.session():
                    self.assertAllEqual(await self.evaluate(af.square([2, 3])), [4, 9])

        if __name__ == "__main__":
            af.test.main()

    The comparisons take values, not tensors.

    Examples:
        >>> case = af.test.TestCase()
        >>> case.assertAllClose({"a": [1.0, 2.0]}, {"a": np.array([1.0, 2.0 + 1e-7])})
        >>> case.assertAllInRange([1, 2, 3], 1, 3)
    """

    def setUp(self) -> None:
        """Make a new graph the default one for the test."""
        self.enterContext(Graph().as_default())

    def get_temp_dir(self) -> str:
        """Return a new folder, which is deleted after the test. Blocks."""
        return self.enterContext(tempfile.TemporaryDirectory())

    def session(self, graph: Graph | None = None, config: Config | None = None) -> Session:
        """Return a session for `async with`: of the default graph if none is given."""
        return Session(graph=graph or get_default_graph(), config=config)

    async def evaluate(self, tensors: Any) -> Any:
        """Return the values of tensors, in any structure, in the default session, or else in a new one."""
        session = get_default_session()
        if session is not None:
            return await session.run(tensors)
        async with self.session() as made:
            return await made.run(tensors)

    def _require(self, holds: bool, text: str) -> None:
        if not holds:
            self.fail(text)

    # Comparisons with a tolerance

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        """Fail unless two numbers differ by `err` at most."""
        self._require(f1 == f2 or abs(f1 - f2) <= err, f"{f1} and {f2} differ by more than {err}: {msg or ''}")

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        """Fail unless each two numbers of two lists differ by `err` at most."""
        self.assertNDArrayNear(farray1, farray2, err, msg)

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        """Fail unless each two elements of two arrays differ by `err` at most."""
        self.assertAllClose(ndarray1, ndarray2, 0.0, err, msg)

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Fail unless two arrays, or lists or dicts of such, differ by `atol + rtol * |b|` at most in each element."""
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            self._require(set(a) == set(b), msg or f"the keys are {list(a)} and {list(b)}")
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, f"at {key!r}: {msg or ''}")
        elif _is_nested(a) or _is_nested(b):
            self._require(len(a) == len(b), msg or f"the lengths are {len(a)} and {len(b)}")
            for number, (left, right) in enumerate(zip(a, b, strict=True)):
                self.assertAllClose(left, right, rtol, atol, f"at {number}: {msg or ''}")
        else:
            left, right = _array(a), _array(b)
            self.assertShapeEqual(left, right, msg)
            np.testing.assert_allclose(_wide(left), _wide(right), rtol, atol, err_msg=msg or "")

    def assertAllCloseAccordingToType(
        self,
        a: Any,
        b: Any,
        rtol: float = 1e-6,
        atol: float = 1e-6,
        float_rtol: float = 1e-6,
        float_atol: float = 1e-6,
        half_rtol: float = 1e-3,
        half_atol: float = 1e-3,
        bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2,
        msg: str | None = None,
    ) -> None:
        """Fail unless two arrays differ by little for the less precise of their dtypes."""
        names = {_array(a).dtype.name, _array(b).dtype.name}
        for name, relative, absolute in (
            ("float32", float_rtol, float_atol),
            ("float16", half_rtol, half_atol),
            ("bfloat16", bfloat16_rtol, bfloat16_atol),
        ):
            if name in names:
                rtol, atol = max(rtol, relative), max(atol, absolute)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Fail if `assertAllClose` does not."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        self.fail(msg or "the two are close everywhere")

    # Exact comparisons

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Fail unless two arrays have one shape and equal elements; NaN equals NaN."""
        left, right = _array(a), _array(b)
        self.assertShapeEqual(left, right, msg)
        np.testing.assert_array_equal(_as_bytes(left), _as_bytes(right), err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        """Fail if `assertAllEqual` does not."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        self.fail(msg or "the two are equal everywhere")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        """Fail unless all elements are greater than a value."""
        self._assert_all(a, _array(a) > comparison_target, f"greater than {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        """Fail unless all elements are less than a value."""
        self._assert_all(a, _array(a) < comparison_target, f"less than {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        """Fail unless all elements are a value or greater."""
        self._assert_all(a, _array(a) >= comparison_target, f"{comparison_target} or greater")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        """Fail unless all elements are a value or less."""
        self._assert_all(a, _array(a) <= comparison_target, f"{comparison_target} or less")

    def assertAllInRange(
        self,
        target: Any,
        lower_bound: Any,
        upper_bound: Any,
        open_lower_bound: bool = False,
        open_upper_bound: bool = False,
    ) -> None:
        """Fail unless all elements lie between two values, which count unless the range is open there."""
        values = _array(target)
        above = values > lower_bound if open_lower_bound else values >= lower_bound
        below = values < upper_bound if open_upper_bound else values <= upper_bound
        range_text = f"{'(' if open_lower_bound else '['}{lower_bound}, {upper_bound}{')' if open_upper_bound else ']'}"
        self._assert_all(target, above & below, f"in {range_text}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        """Fail unless all elements are among these values."""
        self._assert_all(target, np.isin(_array(target), [*expected_set]), f"in {expected_set}")

    def _assert_all(self, target: Any, holds: AnyArray, what: str) -> None:
        if not holds.all():
            places = np.argwhere(~holds)
            self.fail(
                f"{len(places)} elements are not {what}; the first, at {places[0].tolist()}, is "
                f"{_array(target)[tuple(places[0])]}"
            )

    def assertDTypeEqual(self, target: Any, expected_dtype: DTypeLike) -> None:
        """Fail unless a value has that dtype."""
        found, wanted = as_dtype(_array(target).dtype), as_dtype(expected_dtype)
        self._require(found is wanted, f"the dtype is {found.name}, not {wanted.name}")

    def assertShapeEqual(self, input_a: Any, input_b: Any, msg: str | None = None) -> None:
        """Fail unless two arrays or tensors have one shape."""
        found, wanted = _sizes(input_a), _sizes(input_b)
        self._require(found == wanted, f"the shapes are {found} and {wanted}: {msg or ''}")

    def assertDeviceEqual(self, device1: str | None, device2: str | None, msg: str | None = None) -> None:
        """Fail unless two names are of one device."""
        self._require((device1 or "") == (device2 or ""), msg or f"the devices are {device1!r} and {device2!r}")

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        """Fail unless a text starts with another."""
        self._require(actual.startswith(expected_start), msg or f"{actual!r} does not start with {expected_start!r}")

    # Errors

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(
        self, exception_type: type[BaseException], expected_err_re_or_predicate: Matcher
    ) -> Iterator[None]:
        """Fail unless the block raises such an error, whose text or whose whole the second argument accepts."""
        wanted = expected_err_re_or_predicate
        try:
            yield
        except exception_type as error:
            fits = re.search(wanted, str(error)) if isinstance(wanted, str) else wanted(error)
            self._require(bool(fits), f"the error is {error!r}")
        else:
            self.fail(f"no {exception_type.__name__} is raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate: Matcher) -> contextlib.AbstractContextManager[None]:
        """Fail unless the block raises such an OpError."""
        return self.assertRaisesWithPredicateMatch(errors.OpError, expected_err_re_or_predicate)


def _is_nested(value: Any) -> bool:
    """Whether a list holds lists of different lengths, dicts, or arrays, rather than being one array."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return False
    return any(isinstance(item, (Mapping, np.ndarray)) or _is_nested(item) for item in value) or (
        len({np.shape(item) for item in value}) > 1
    )


def _array(value: Any) -> AnyArray:
    if isinstance(value, (Tensor, Operation)):
        raise TypeError(f"{value.name!r} has a value in a run only: compare `await self.evaluate(...)`")
    return np.asarray(value)


def _wide(array: AnyArray) -> AnyArray:
    return array.astype(np.float32) if array.dtype.name in _HALF else array


def _as_bytes(array: AnyArray) -> AnyArray:
    """Texts as bytes, which steps return for strings."""
    if array.dtype.kind not in "UO":
        return array
    return np.array([x.encode() if isinstance(x, str) else x for x in array.ravel()], object).reshape(array.shape)


def _sizes(value: Any) -> list[int | None]:
    return value.shape.as_list() if isinstance(value, Tensor) else [*np.shape(value)]
