"""Checks the size of a kernel's results before the kernel allocates them.

`fill`, `range`, `tile`, `one_hot` and others make large tensors from small ones. The shape rule of an op gives the size
of a result from the values of the inputs. If the size depends on more than that, `Op.makes` declares a rule of its own.
A result must fit the memory limit of its device; without a limit, the memory of the machine.
"""

import functools
import itertools
import math
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from aioflow import errors
from aioflow.devices.memory import Ledger
from aioflow.graph.kernel import Kernel, NodeView
from aioflow.graph.op import Op
from aioflow.kernels import known
from aioflow.tensors.dtypes import SCALAR, Spec, resource, spec_of, string

HARMLESS: Final = 1 << 28
"""Results of fewer bytes are not checked."""
_WIDEST: Final = 16
"""The size in bytes of the widest element."""
_USUAL: Final = 1 << 10
"""The largest product of attributes, such as strides and windows, for which results are not checked."""
_GROUPS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""The files in which Linux states the memory limit of a container."""


class Node(NodeView, Protocol):
    """A node, with its op."""

    @property
    def definition(self) -> Op[Any]:
        """Its op."""


def guarded(call: Callable[..., Any], node: Node, kernel: Kernel, ledger: Ledger | None) -> Callable[..., Any]:
    """`call`, the node's bound kernel; it raises ResourceExhaustedError instead of allocating too much."""
    least = min(HARMLESS, _room(ledger))
    sizes = [spec.bytes for spec in node.output_specs]
    ruled = node.definition.bytes_rule is not None
    settled = not ruled and None not in sizes
    if settled and sum([size or 0 for size in sizes]) <= least:
        return call
    hosts = _hosts(node)
    numbers = [spec.dtype.is_integer and host for spec, host in hosts]
    factor = _factor(node)
    grows = ruled or any(numbers) or factor > _USUAL or any(_known_bytes(s) > least for s in _open(node))
    if not settled and not grows and (ledger is None or ledger.limit is None):
        return call
    if not kernel.fresh and not ruled:  # a view allocates nothing
        return call
    skip, always = int(kernel.context), settled or ruled
    repeats = not ruled and (ledger is None or ledger.limit is None)
    passed: Hashable = None

    def checked(*inputs: Any, **out: Any) -> Any:
        nonlocal passed
        given = inputs[skip:]
        writes_into_input = out.get("out") is not None
        if not writes_into_input and (always or _most(given, numbers) * factor > least):
            origin = _origin(given, hosts) if repeats else None
            if origin is None or origin != passed:
                size = needed(node.definition, node.attrs, given, node.input_specs)
                check(size, f"the result of {node.name!r}", ledger)
                passed = origin
        return call(*inputs, **out)

    return checked


def _origin(inputs: Sequence[Any], hosts: Sequence[tuple[Spec, bool]]) -> Hashable:
    """The shapes of the inputs, and values used on the host. None if shapes of results depend on more."""
    parts = []
    for value, (spec, host) in zip(inputs, hosts, strict=False):
        if spec.dtype is resource or not isinstance(value, (np.ndarray, np.generic)):
            return None
        parts.append((value.shape, tuple(value.ravel().tolist()) if host and value.size <= known.LARGEST else ()))
    return tuple(parts) if len(inputs) == len(hosts) else None


def needed(definition: Op[Any], attrs: Any, inputs: Sequence[Any], specs: Sequence[Spec] = ()) -> int:
    """The bytes of the results for these inputs, as far as they are known.

    `specs` are the specs of the inputs. For a list of tensors they give the shape of elements that are not written.

    Raises:
        ValueError, TypeError: the inputs do not fit the op.
    """
    if definition.bytes_rule is not None:
        return int(definition.bytes_rule(inputs, attrs, specs))
    hosts = definition.host_inputs(len(inputs))
    given = [_spec(*each) for each in itertools.zip_longest(inputs, hosts, specs)]
    return sum([spec.bytes or 0 for spec in definition.infer(given, attrs)])


def check(nbytes: int, what: str, ledger: Ledger | None) -> None:
    """Raise ResourceExhaustedError, naming `what`, if there is no room for that many bytes."""
    if ledger is not None and ledger.limit is not None:
        ledger.check(nbytes, what)
    elif nbytes > machine_memory():
        raise errors.ResourceExhaustedError(f"{what} needs {nbytes:,} bytes, and this machine has {machine_memory():,}")


@functools.cache
def machine_memory() -> int:
    """The most bytes of memory that this process can have."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        found = 1 << 40
    return min([found, *filter(None, map(_limit_of_group, _GROUPS))])


def _limit_of_group(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _room(ledger: Ledger | None) -> int:
    return machine_memory() if ledger is None or ledger.limit is None else ledger.limit


def _hosts(node: Node) -> list[tuple[Spec, bool]]:
    """The Specs of the inputs, each with whether its value is used on the host, like a size or an index."""
    specs = node.input_specs
    return list(zip(specs, node.definition.host_inputs(len(specs)), strict=True))


def _open(node: Node) -> list[Spec]:
    return [spec for spec in node.output_specs if spec.bytes is None]


def _known_bytes(spec: Spec) -> int:
    """The bytes of a result, counting only the axes whose size is known."""
    return spec.dtype.size * math.prod([size for size in spec.sizes or () if size is not None])


def _factor(node: Node) -> int:
    """The factor by which integer attributes may enlarge a result beyond the bound by its inputs.

    A list of tensors may have slots that are not written; a read of them gives zeros with the shape of its elements.
    """
    numbers = [abs(n) or 1 for name, value in node.attrs.items() if "seed" not in name for n in _integers(value)]
    if any(spec.dtype is resource for spec in node.input_specs):
        numbers += [_known_bytes(spec) or 1 for spec in node.output_specs]
    return math.prod(numbers)


def _integers(value: Any) -> Iterator[int]:
    if type(value) is int:
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _integers(each)


def _most(inputs: Sequence[Any], numbers: Sequence[bool]) -> int:
    """An upper bound on the bytes of a result made from these inputs."""
    most = _WIDEST
    for value, number in zip(inputs, numbers, strict=False):
        count = int(getattr(value, "size", 1))
        if number and count <= known.LARGEST:
            for each in value.ravel().tolist():
                most *= abs(each) + 1
        else:
            most *= count + 1
    return most


def _spec(value: Any, host: bool, spec: Spec | None) -> Spec:
    if spec is not None and spec.dtype is resource:
        return spec
    if isinstance(value, bytes):
        return Spec(string, SCALAR)
    return known.of(value) if host else spec_of(value)
