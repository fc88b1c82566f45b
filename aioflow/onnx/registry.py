"""The table of operators: for each the versions of its domain from which on a function builds it.

    @operator("Gemm", since=7)
    def _(call: Call, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor: ...

The function gets the node's inputs, None for those left out, and returns its outputs: one value or a tuple. It builds
operations of aioflow in the default graph.
"""

from collections.abc import Callable
from typing import Any, Final

from aioflow.lazy import Registry

Rule = Callable[..., Any]
"""(call, *inputs) -> one output or a tuple of outputs."""

OPERATORS: Final[Registry[dict[int, Rule]]] = Registry("aioflow.onnx.operators")
"""{"domain.type": {version: function}}; the operators of ONNX's own domain have no domain before the dot."""


def operator(type: str, since: int = 1, domain: str = "") -> Callable[[Rule], Rule]:
    """Declare the function that builds an operator, from that version of its domain on."""

    def declare(rule: Rule) -> Rule:
        versions = OPERATORS.setdefault(f"{domain}.{type}", {})
        if since in versions:
            raise ValueError(f"version {since} of operator {type} is declared twice")
        versions[since] = rule
        return rule

    return declare


def find_rule(domain: str, type: str, version: int) -> Rule | None:
    """The function for an operator in a version of its domain; None if there is none."""
    OPERATORS.complete()
    versions = OPERATORS.get(f"{domain}.{type}", {})
    return versions.get(max((since for since in versions if since <= version), default=0))
