"""Signatures by TensorFlow's functions and constants."""

import pytest

import aioflow as af
from aioflow.saved_model import signature_constants as names


def test_signatures_have_the_names_that_the_constants_say():
    with af.Graph().as_default():
        x = af.placeholder(af.float32, [None, 3], name="x")
        y = af.nn.softmax(x)
        predict = af.saved_model.build_signature_def({"x": x}, {"y": y}, names.PREDICT_METHOD_NAME)
        classify = af.saved_model.classification_signature_def(x, None, y)
        regress = af.saved_model.regression_signature_def(x, y)
        assert predict == af.saved_model.predict_signature_def({"x": x}, {"y": y})
        assert classify == af.saved_model.Signature(
            {names.CLASSIFY_INPUTS: x}, {names.CLASSIFY_OUTPUT_SCORES: y}, names.CLASSIFY_METHOD_NAME
        )
        assert regress.outputs == {names.REGRESS_OUTPUTS: y}
        assert regress.method == names.REGRESS_METHOD_NAME
        with pytest.raises(ValueError, match="at least one output"):
            af.saved_model.build_signature_def({"x": x})
