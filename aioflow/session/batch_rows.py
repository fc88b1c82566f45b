"""Rows of calls: checked and padded before they wait, put together for a batch, and its results divided again."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

import numpy as np

from aioflow import errors
from aioflow.graph.operation import Tensor, describe_line, items_of
from aioflow.runtime.feeds import converter, known_row
from aioflow.session.waiting_calls import BatchedCall
from aioflow.tensors.dtypes import Array, ListSpec, Sizes


class RowChecks:
    """What the rows of a call must be, by the feeds and fetches of the graph.

    Attributes:
        fixed: the number of rows that each batch must have; None if it may have any.
    """

    def __init__(self, fetches: Sequence[Tensor], feeds: Sequence[Tensor], buckets: Sequence[int]) -> None:
        """ValueError, with the mend, if a feed or a fetch cannot have rows."""
        if any(not isinstance(bucket, int) or bucket < 1 for bucket in items_of("buckets", buckets)):
            raise ValueError(f"buckets are sizes of at least 1, not {list(buckets)}")
        self._feeds: Final = feeds
        self._fetches: Final = fetches
        self._buckets: Final = sorted(buckets)
        for tensor in (*feeds, *fetches):
            if tensor.shape.sizes == ():
                what = "list" if isinstance(tensor.spec, ListSpec) else "scalar"
                text = f"{tensor.name!r} is a {what}, and has no rows in axis 0: a batched call cannot divide it"
                raise ValueError(f"{text}\n  built at: {describe_line(tensor.op)}")
        self.fixed: Final = _fixed_rows(feeds)
        for fetch in fetches:
            _check_rows(fetch, self.fixed)
        self._converters: Final = [_row_converter(feed) for feed in feeds]
        self._open: Final = [_open_axes(fetch) for fetch in fetches]
        self._pads: Final[Sequence[Sequence[int]]] = [_open_axes(feed) for feed in feeds] if buckets else ()
        self._row: Final = _plain_row(feeds[0]) if len(feeds) == 1 else None
        self._dtype: Final = None if self._row is None else feeds[0].dtype.np

    def call(self, values: Sequence[Any]) -> BatchedCall:
        """A call with these values, converted, and their rows padded to a bucket.

        TypeError or ValueError, naming the feed, if they do not fit.
        """
        if self._dtype is not None and len(values) == 1 and type(values[0]) is np.ndarray:
            array: Array = values[0]  # the usual call
            shape = array.shape
            if shape[1:] == self._row and array.dtype is self._dtype:
                return BatchedCall(values, shape[0], self._row)
        if len(values) != len(self._feeds):
            names = [feed.name for feed in self._feeds]
            raise TypeError(f"the callable takes {len(names)} values, for {names}, and was given {len(values)}")
        arrays = [convert(value) for convert, value in zip(self._converters, values, strict=True)]
        count = len(arrays[0])
        if any(len(array) != count for array in arrays):
            counts = {feed.name: len(array) for feed, array in zip(self._feeds, arrays, strict=True)}
            raise ValueError(f"the values of a call have different numbers of rows: {counts}")
        if self._pads:
            return self._padded(arrays, count)
        return BatchedCall(arrays, count, _shapes(arrays) if self._row is None else self._row)

    def _padded(self, arrays: Sequence[Array], count: int) -> BatchedCall:
        sizes = [self._sizes(*each) for each in zip(self._feeds, arrays, self._pads, strict=True)]
        padded = [_pad(array, wanted) for array, wanted in zip(arrays, sizes, strict=True)]
        first = arrays[0].shape
        axes = [(axis, now, own) for axis, (now, own) in enumerate(zip(sizes[0], first, strict=True)) if now != own]
        return BatchedCall(padded, count, _shapes(padded), axes)

    def _sizes(self, feed: Tensor, array: Array, axes: Sequence[int]) -> list[int]:
        """The sizes of a value after padding. ValueError if no bucket is large enough."""
        sizes = list(array.shape)
        for axis in axes[: array.ndim - 1]:
            found = next((bucket for bucket in self._buckets if bucket >= sizes[axis]), None)
            if found is None:
                text = f"axis {axis} of the value for {feed.name!r} has size {sizes[axis]}"
                raise ValueError(f"{text}, and the largest bucket is {self._buckets[-1]}")
            sizes[axis] = found
        return sizes

    def check_results(self, results: Sequence[Array], count: int) -> None:
        """InvalidArgumentError if a result has not one row for each row of the batch."""
        for result in results:
            if result.shape[:1] != (count,):
                raise self._wrong_rows(results, count)

    def _wrong_rows(self, results: Sequence[Array], count: int) -> errors.InvalidArgumentError:
        found = zip(self._fetches, [list(result.shape) for result in results], strict=True)
        name, shape = next((fetch.name, shape) for fetch, shape in found if shape[:1] != [count])
        text = f"{name!r} has shape {shape} for a batch of {count} rows: a batched call needs"
        return errors.InvalidArgumentError(f"{text} one row of each fetch for each row of the feeds")

    def cut(self, call: BatchedCall, results: Sequence[Array]) -> Sequence[Array]:
        """The results of a call in the sizes that it had before padding."""
        return [_cut(call, result, axes) for result, axes in zip(results, self._open, strict=True)]


def _cut(call: BatchedCall, result: Array, open_axes: Sequence[int]) -> Array:
    for axis, size, own in call.own_sizes:
        if axis in open_axes and axis < result.ndim and result.shape[axis] == size:
            result = result[(slice(None),) * axis + (slice(own),)]
    return result


def _fixed_rows(feeds: Sequence[Tensor]) -> int | None:
    known = {feed.name: feed.shape.sizes[0] for feed in feeds if feed.shape.sizes and feed.shape.sizes[0] is not None}
    if len(set(known.values())) > 1 or (known and len(known) < len(feeds)):
        raise ValueError(f"all feeds of a batched call have the same number of rows, known or not; here {known}")
    if 0 in known.values():
        raise ValueError(f"the graph fixes 0 rows, so that a batched call has nothing to run: {known}")
    return next(iter(known.values()), None)


def _check_rows(fetch: Tensor, fixed: int | None) -> None:
    rows = fetch.shape.sizes[0] if fetch.shape.sizes else None
    if rows not in (None, fixed):
        feeds = "any number" if fixed is None else str(fixed)
        text = f"{fetch.name!r} has {rows} rows where the feeds have {feeds}: a batched call needs a row for each"
        raise ValueError(f"{text}\n  built at: {describe_line(fetch.op)}")


def _plain_row(feed: Tensor) -> Sizes | None:
    """The shape of the rows of a feed, if it is known, and all arrays of its dtype that have such rows fit."""
    sizes = feed.shape.sizes
    return None if feed.spec.known is not None or feed.dtype.np.kind == "O" else known_row(sizes and (None, *sizes[1:]))


def _row_converter(feed: Tensor) -> Callable[[Any], Array]:
    sizes = feed.shape.sizes
    convert = converter(feed, None if sizes is None else (None, *sizes[1:]))
    if sizes is not None:
        return convert

    def converted(value: Any) -> Array:
        array = convert(value)
        if not np.ndim(array):
            raise ValueError(f"a scalar for {feed.name!r}: the value of a batched call has rows in axis 0")
        return array

    return converted


def _open_axes(tensor: Tensor) -> Sequence[int]:
    """The axes after the first whose sizes are unknown."""
    sizes = tensor.shape.sizes
    return range(1, 32) if sizes is None else [axis for axis, size in enumerate(sizes) if axis and size is None]


def _shapes(arrays: Sequence[Array]) -> Hashable:
    return tuple([array.shape[1:] for array in arrays])


def _pad(array: Array, sizes: Sequence[int]) -> Array:
    if list(array.shape) == sizes:
        return array
    padded = _blank(sizes, array.dtype)
    padded[tuple([slice(size) for size in array.shape])] = array
    return padded


def _blank(sizes: Sequence[int], dtype: Any) -> Array:
    """Zeros, or empty strings."""
    return np.full(sizes, b"", object) if np.dtype(dtype).kind == "O" else np.zeros(sizes, dtype)


def together(parts: Sequence[Sequence[Array]], fixed: int | None) -> list[Array]:
    """The feeds of a batch, of the values of its parts.

    Args:
        parts: the values for each feed, of each part.
        fixed: the number of rows that the batch must have, if there is one: the last row is repeated.
    """
    return [_together(list(arrays), fixed) for arrays in zip(*parts, strict=True)]


def _together(arrays: list[Array], fixed: int | None) -> Array:
    missing = 0 if fixed is None else fixed - sum(map(len, arrays))
    if missing:
        last = arrays[-1][-1:]
        row = last if len(last) else _blank((1, *last.shape[1:]), last.dtype)
        arrays.append(np.repeat(row, missing, axis=0))
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
