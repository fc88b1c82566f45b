"""How many of ONNX's own tests of operators and networks pass: `make onnx`."""
