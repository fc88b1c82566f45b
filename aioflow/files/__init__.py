"""Files and their formats: local paths, URLs, TFRecords and checksums.

Input: paths and bytes. Output: records, and files that are either complete or absent. The functions block, so callers
run them on threads. This folder never imports a graph or asyncio, and it never unpickles.
"""
