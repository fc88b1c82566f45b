"""The operators, by family: one function each, which builds operations and never runs one."""
