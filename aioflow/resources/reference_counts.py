"""Reference counts of values."""

import sys
from typing import Final

COUNTS_ARE_EXACT: Final = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether reference counts show other holders of a value: not in free-threaded Python."""
