"""Messages as bytes: schema, fields, encoding and limits.

Every decoder checks counts and sizes before it allocates.
"""
