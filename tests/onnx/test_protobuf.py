"""Without the package onnx, the error names the extra that installs it."""

import sys

import pytest

import aioflow as af


def test_the_error_without_the_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install aioflow-engine\[onnx\]"):
        af.onnx.load(b"", af.Graph())
