"""The examples of docstrings: run as in `python -m asyncio`, after the lines that begin each page of the reference."""

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import re
import sys
import types

import numpy as np

import aioflow as af

PARSER = doctest.DocTestParser()
NUMBER = re.compile(r"-?\d+\.\d*(?:e[-+]?\d+)?")


def examples(value):
    """The examples in the docstring of an object."""
    return PARSER.get_examples(inspect.getdoc(value) or "")


async def failures(value):
    """The examples of an object that print another text than the docstring shows, with that text."""
    with af.Graph().as_default():
        async with af.Session() as session:
            names = {"__builtins__": __builtins__, "af": af, "asyncio": asyncio, "np": np, "session": session}
            return [
                f"{example.source}prints {printed}"
                for example in examples(value)
                if rounded(printed := await output(example.source, names)) != rounded(example.want)
            ]


async def output(source, names):
    """What a statement prints in a session of Python that awaits at its top."""
    code = compile(source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(io.StringIO()) as printed, shown():
        result = types.FunctionType(code, names)()
        if inspect.iscoroutine(result):
            await result
    return printed.getvalue()


@contextlib.contextmanager
def shown():
    """Values of statements are printed, and not kept as `_`."""
    before, sys.displayhook = sys.displayhook, lambda value: None if value is None else print(repr(value))
    try:
        yield
    finally:
        sys.displayhook = before


def rounded(text):
    """A text whose numbers have five digits: the last ones differ with the library that computes."""
    return re.sub(r"\s+", " ", NUMBER.sub(lambda number: f"{float(number[0]):.5g}", text)).strip()
