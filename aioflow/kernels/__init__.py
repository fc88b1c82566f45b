"""The ops, one family in a file. Each op is declared whole: shape rule, docstring, gradient, kernels and cost.

Input of a kernel: a `Context`, the input arrays and the attributes. Output: arrays, or an error of `af.errors`.
`families` declares ops of one line, `known` gives shape rules small integer values. A kernel may use its inputs, its
resources and its `Context`. It never imports a session, an executor or the network.
"""
