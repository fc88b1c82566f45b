"""The package onnx, imported when a model is first read: its messages, and its definitions of operators."""

import functools
from typing import Any


def package() -> Any:
    """The package onnx. ImportError that names the extra, if it is not installed."""
    try:
        import onnx
        import onnx.defs
        import onnx.numpy_helper
    except ImportError as error:
        raise ImportError(
            "models in the ONNX format need the package onnx: pip install aioflow-engine[onnx]"
        ) from error
    return onnx


def encode_error() -> type[Exception]:
    """The class of the error for a message that is too large."""
    from google.protobuf import message  # type: ignore[import-untyped]

    found: type[Exception] = message.EncodeError
    return found


def schema(domain: str, operator: str, version: int) -> Any:
    """ONNX's definition of an operator in that version of its domain; None if there is none."""
    defs = package().defs
    try:
        return defs.get_schema(operator, version, domain)
    except defs.SchemaError:
        return None


@functools.cache
def newest_version(domain: str) -> int | None:
    """The newest version of a domain that the package knows; None for a domain that it does not know."""
    found = [each.since_version for each in package().defs.get_all_schemas_with_history() if each.domain == domain]
    return max([package().defs.onnx_opset_version()] if domain == "" else found, default=None)
