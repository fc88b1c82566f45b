"""How many examples a line gets."""

from typing import Any


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--examples", type=int, default=40, help="generated inputs per line of the table")
