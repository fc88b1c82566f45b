"""Ops on images: decoding, encoding and resizing. Damaged and oversized files are refused."""
