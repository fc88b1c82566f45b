"""Tests that take minutes: collected only where this folder, or something in it, is named on the command line."""

import pathlib

HERE = pathlib.Path(__file__).parent


def pytest_ignore_collect(collection_path, config):
    named = [(config.invocation_params.dir / argument.split("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(HERE) for path in named) else True
