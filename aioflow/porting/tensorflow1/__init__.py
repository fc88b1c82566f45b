"""The port of TensorFlow 1 programs: `aioflow port script.py`.

Input: the text of a program. Output: the text with the mechanical part of the change made, each name of TensorFlow's
with its state here, and the places that need a person. The program is parsed, and never run.

`script` has the text and its syntax tree; `inference` tells what expressions stand for (`kinds`); `coroutines` finds
what waits. `imports`, `awaiting`, `arguments`, `flags` and `entry` make the changes as `edits`, which leave all other
characters alone. `usage` and `names` look up the state of names. `port` is the path on one page.
"""
