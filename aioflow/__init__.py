"""aioflow."""
