"""The operators of a model that aioflow cannot build, found before anything is built."""

from collections.abc import Iterator, Mapping, Sequence

from aioflow import errors
from aioflow.onnx.functions import has_definition
from aioflow.onnx.model import DOMAINS, Model, Node
from aioflow.onnx.protobuf import newest_version
from aioflow.onnx.registry import find_rule


def check_operators(model: Model) -> None:
    """UnimplementedError with all operators, domains and versions of the model that aioflow does not know."""
    _check_versions(model)
    found = dict.fromkeys(_missing(model, model.graph.nodes, model.opsets))
    for function in model.functions.values():
        found.update(dict.fromkeys(_missing(model, function.nodes, {**model.opsets, **function.opsets})))
    if found:
        raise errors.UnimplementedError(f"{len(found)} operators of the model are not implemented: {', '.join(found)}")


def _check_versions(model: Model) -> None:
    for domain, version in model.opsets.items():
        newest = newest_version(domain)
        if newest is not None and not 1 <= version <= newest:
            name = DOMAINS.get(domain, domain)
            raise errors.UnimplementedError(
                f"the model has version {version} of the operators of {name}, aioflow knows versions up to {newest}"
            )


def _missing(model: Model, nodes: Sequence[Node], opsets: Mapping[str, int]) -> Iterator[str]:
    for node in nodes:
        for body in node.bodies():
            yield from _missing(model, body.nodes, opsets)
        if (node.domain, node.type, node.overload) in model.functions:
            continue
        version = opsets.get(node.domain)
        if version is None:
            yield f"{node.operator} (the model states no version of {node.domain})"
        elif find_rule(node.domain, node.type, version) is None and not has_definition(node.domain, node.type, version):
            yield f"{node.operator} (version {version})"
