"""One output of a notebook's cell that changes while the cell runs."""

import sys
from typing import Any


def in_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return find is not None and getattr(find(), "kernel", None) is not None


class LiveOutput:
    """Shows one object after another in the same place. A frontend without HTML shows their texts."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, view: object) -> None:
        """Show an object in place of the one before."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display(view, display_id=True)  # type: ignore[no-untyped-call, unused-ignore]
        else:
            self._handle.update(view)
