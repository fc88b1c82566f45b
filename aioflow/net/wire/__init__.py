"""Messages as bytes: schema, fields, encoding and limits. PROTOCOL.md specifies them.

Input: messages and arrays. Output: frames, and messages of frames. `schema` declares fields, the `verbs` modules the
messages, `codec` and `framing` turn them into frames. Every decoder checks counts and sizes before it allocates. This
folder never opens a socket and never awaits.
"""
