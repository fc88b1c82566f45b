"""The table, a family per file."""
