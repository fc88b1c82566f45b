"""The ops of TensorFlow, by family: one function each, which builds operations and never runs one."""
