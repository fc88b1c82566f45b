"""How much is tried: `make test` tries a part of each kind, `make test-long`, which sets AIOFLOW_LONG=1, tries all.

A test that has no short form is marked `long`, and so are single cases: `pytest.param(..., marks=pytest.mark.long)`.
"""

import math
import os

LONG = os.environ.get("AIOFLOW_LONG", "0") != "0"


def amount(short, long, variable=None):
    """The number of tries in a short run, or in a long one. The environment variable of that name overrides both."""
    chosen = long if LONG else short
    return int(os.environ.get(variable, chosen)) if variable else chosen


def some(items, most):
    """All items in a long run, and in a short one at most so many, at equal distances."""
    items = list(items)
    return items if LONG else items[:: max(1, math.ceil(len(items) / most))]
