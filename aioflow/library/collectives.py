"""`af.collectives`: reductions of tensors on several devices, whose result all of these devices get.

Each function takes a list with one tensor per device, on the devices of the tensors, and returns a list of the same
length, with each result on the device of its number. The names are those of TensorFlow's `contrib.nccl`.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from aioflow.graph.building import transactional
from aioflow.graph.convert import TensorLike, convert_to_tensor
from aioflow.graph.device_spec import DeviceSpec
from aioflow.graph.indexed_slices import IndexedSlices
from aioflow.graph.operation import Tensor
from aioflow.kernels.array.concat import concat
from aioflow.kernels.array.constants import identity
from aioflow.lazy import Face
from aioflow.library.control import name_scope
from aioflow.library.dense_reduction import (
    OPS,
    Groups,
    check_same_shapes,
    divide,
    join,
    merged_shape,
    piece_count,
    reduced,
    shares,
)
from aioflow.library.ring import Ring
from aioflow.tensors.codecs import Codec


@transactional
def all_reduce(
    tensors: Sequence[TensorLike | IndexedSlices],
    op: str = "sum",
    codec: str | None = None,
    in_task_order: bool = False,
    groups: Groups | None = None,
    name: str | None = None,
) -> list[Any]:
    """Return the sum, or another reduction, of all tensors on each of their devices, the same to the last bit on all.

    The devices form a ring, and each sends pieces only to the next one: for n devices, each sends twice the bytes of a
    tensor, less one n-th, for any n. Gradients use as many bytes. It waits for all devices, and a step that fails on
    one device fails on all.

    Args:
        tensors: one for each device, of one dtype and shape. The rows of IndexedSlices are concatenated, not added.
        op: `sum`, `mean`, `prod`, `min` or `max`. For a mean, narrow floats are added as float32, in task order.
        codec: a lossy form, see `af.lossy`, in which sums and means are sent: once to the device that adds up a piece,
            once from there. With `top_k` each device keeps the omitted elements for the next step; rows of
            IndexedSlices, which change from step to step, are sent exactly. Gradients stop there: they are None.
        in_task_order: whether each piece is reduced in the order of `tensors`, on one device, so that the result equals
            to the last bit that of one device. As many bytes are sent, but from all to all. A codec always does this.
        groups: lists of numbers of tensors, each number once: the tensors on devices of one host, as `groups_by_host`
            returns them. Pieces are reduced inside each group, in the order of its list, then between the groups, round
            rings; so each byte leaves a host once. Only what leaves a host is sent in the form of `codec`. Rows of
            IndexedSlices are sent round one ring.
        name: the name scope.

    Raises:
        TypeError: the dtypes differ, or cannot be reduced so.
        ValueError: there are none, their shapes differ, or there is no such op or codec; the groups do not have each
            tensor once, or several groups are to be reduced in task order.
        InvalidArgumentError: in the step, if shapes that were not known differ.

    Examples:
        >>> sums = af.collectives.all_reduce([af.constant([1.0, 2.0]), af.constant([3.0, 4.0])], "sum")
        >>> await session.run(sums)
        [array([4., 6.], dtype=float32), array([4., 6.], dtype=float32)]
    """
    _check(op, codec)
    if groups is not None and len(groups) > 1 and in_task_order:
        raise ValueError(f"{len(groups)} groups cannot be reduced in task order: each is reduced by itself first")
    given = [value if isinstance(value, IndexedSlices) else convert_to_tensor(value) for value in tensors]
    with name_scope(name, "all_reduce", given):
        slices = [value for value in given if isinstance(value, IndexedSlices)]
        dense = [value for value in given if isinstance(value, Tensor)]
        if slices and dense:
            raise TypeError("some are tensors, others IndexedSlices: all must be of one kind")
        return list(_slices(slices, op, codec) if slices else reduced(dense, op, codec, in_task_order, groups))


def all_sum(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the sum of all tensors, on each of their devices: `all_reduce`.

    Examples:
        >>> await session.run(af.collectives.all_sum([af.constant([1.0]), af.constant([3.0])]))
        [array([4.], dtype=float32), array([4.], dtype=float32)]
    """
    return list(all_reduce(tensors, "sum", name=name or "all_sum"))


def all_prod(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the product of all tensors, on each of their devices: `all_reduce`.

    Examples:
        >>> await session.run(af.collectives.all_prod([af.constant([2.0]), af.constant([3.0])]))
        [array([6.], dtype=float32), array([6.], dtype=float32)]
    """
    return list(all_reduce(tensors, "prod", name=name or "all_prod"))


def all_min(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the smallest of each element, on each of the tensors' devices: `all_reduce`.

    Examples:
        >>> await session.run(af.collectives.all_min([af.constant([1.0]), af.constant([3.0])]))
        [array([1.], dtype=float32), array([1.], dtype=float32)]
    """
    return list(all_reduce(tensors, "min", name=name or "all_min"))


def all_max(tensors: Sequence[TensorLike], name: str | None = None) -> list[Any]:
    """Return the greatest of each element, on each of the tensors' devices: `all_reduce`.

    Examples:
        >>> await session.run(af.collectives.all_max([af.constant([1.0]), af.constant([3.0])]))
        [array([3.], dtype=float32), array([3.], dtype=float32)]
    """
    return list(all_reduce(tensors, "max", name=name or "all_max"))


def groups_by_host(tensors: Sequence[Tensor], tasks: Iterable[tuple[str, str]]) -> list[list[int]]:
    """Return the numbers of the tensors, those on devices of one host together, as `all_reduce(groups=)` takes them.

    Args:
        tensors: each on a device of a task.
        tasks: names and addresses of tasks: an `af.train.ClusterSpec`.

    Raises:
        ValueError: a tensor is on no device of these tasks.

    Examples:
        >>> cluster = af.train.ClusterSpec({"worker": ["red:2222", "red:2223", "blue:2222"]})
        >>> values = []
        >>> for number in range(3):
        ...     with af.device(f"/job:worker/task:{number}"):
        ...         values.append(af.constant(1.0) + 1.0)
        >>> af.collectives.groups_by_host(values, cluster)
        [[0, 1], [2]]
    """
    hosts = {(spec.job, spec.task): _host_of(address) for spec, address in _parsed(tasks)}
    found: dict[str, list[int]] = {}
    for number, tensor in enumerate(tensors):
        spec = DeviceSpec.from_string(Ring([tensor]).device(0))
        host = hosts.get((spec.job, spec.task or 0))
        if host is None:
            raise ValueError(
                f"tensor {number} is on {spec.to_string() or 'no device'}, which is in no task of the cluster"
            )
        found.setdefault(host, []).append(number)
    return list(found.values())


def _parsed(tasks: Iterable[tuple[str, str]]) -> list[tuple[DeviceSpec, str]]:
    return [(DeviceSpec.from_string(name), address) for name, address in tasks]


def _host_of(address: str) -> str:
    return address.rpartition(":")[0]


@transactional
def all_gather(tensors: Sequence[TensorLike], axis: int = 0, name: str | None = None) -> list[Tensor]:
    """Concatenate all tensors along an axis, on each of their devices; each tensor travels around the ring.

    Raises:
        TypeError: the dtypes differ.
        ValueError: there are none, or they cannot be concatenated.

    Examples:
        >>> parts = af.collectives.all_gather([af.constant([1.0]), af.constant([2.0])])
        >>> await session.run(parts)
        [array([1., 2.], dtype=float32), array([1., 2.], dtype=float32)]
    """
    given = _convert_all(tensors)
    with name_scope(name, "all_gather", given):
        return _gather_rows(given, axis, None)


@transactional
def broadcast(tensors: Sequence[TensorLike], root: int = 0, name: str | None = None) -> list[Tensor]:
    """Return the tensor of number `root` on the devices of all tensors, which have its dtype and shape.

    Each device gets a piece of it, and the pieces travel around the ring.

    Examples:
        >>> a, b = af.collectives.broadcast([af.constant([1.0]), af.constant([2.0])], root=1)
        >>> await session.run([a, b])
        [array([2.], dtype=float32), array([2.], dtype=float32)]
    """
    given = _convert_all(tensors)
    if not 0 <= root < len(given):
        raise ValueError(f"there are {len(given)} tensors: root cannot be {root!r}")
    with name_scope(name, "broadcast", given):
        ring, whole = Ring(given), merged_shape(given)
        count = piece_count(whole, len(ring))
        if not count:
            return check_same_shapes(ring, given)
        pieces = divide(ring, root, given[root], whole, count)
        here = []
        for number, piece in enumerate(pieces):
            with ring.at(number):
                here.append(identity(piece))
        return join(ring, given, ring.spread(here, None), whole)


# Arguments


def _check(op: str, codec: str | None) -> None:
    if op not in OPS:
        raise ValueError(f"op must be one of {', '.join(OPS)}, not {op!r}")
    if codec is not None:
        Codec.parse(codec)
        if op not in ("sum", "mean"):
            raise ValueError(f"only sums and means can be sent in a lossy form, not {op!r}")


def _convert_all(tensors: Sequence[TensorLike]) -> list[Tensor]:
    return [convert_to_tensor(tensor) for tensor in tensors]


# Rows


def _slices(slices: Sequence[IndexedSlices], op: str, codec: str | None) -> list[IndexedSlices]:
    """Return all rows on each device, in the order of the devices."""
    if op not in ("sum", "mean"):
        raise ValueError(f"the rows of IndexedSlices can be added up, which {op!r} cannot")
    ring = Ring([each.values for each in slices])
    keeps = codec is not None and Codec.parse(codec).name == "top_k"
    rows = _gather_rows([each.values for each in slices], 0, None if keeps else codec)
    places = _gather_rows([each.indices for each in slices], 0, None)
    if op == "mean":
        rows = shares(ring, rows, lend=False)
    return [IndexedSlices(*parts) for parts in zip(rows, places, [each.dense_shape for each in slices], strict=True)]


def _gather_rows(tensors: Sequence[Tensor], axis: int, codec: str | None) -> list[Tensor]:
    if not tensors:
        raise ValueError("at least one tensor is needed")
    ring = Ring(tensors)
    rows = ring.spread(tensors, codec)
    found = []
    for number, row in enumerate(rows):
        with ring.at(number):
            found.append(concat(row, axis))
    return found


__all__ = ["all_gather", "all_max", "all_min", "all_prod", "all_reduce", "all_sum", "broadcast", "groups_by_host"]
Face(__name__, {__name__: " ".join(__all__)})
