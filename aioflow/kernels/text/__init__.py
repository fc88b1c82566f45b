"""Ops on byte strings: formatting, splitting, hashing and regular expressions."""
