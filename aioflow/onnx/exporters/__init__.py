"""How operations are written as nodes of ONNX, by family: a function for each type of operation."""
