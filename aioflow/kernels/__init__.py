"""The ops: one family per file, in it each op whole."""
