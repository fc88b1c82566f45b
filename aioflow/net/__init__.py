"""The wire: messages between tasks of a cluster, and the channels that carry them. The text is PROTOCOL.md.

From below: a `Channel` carries frames; a `Link` sends whole messages over one, and puts together those that arrive; a
`Peer` is another task, reached over two links, which is asked things and asks things. What the messages are, say
`master_verbs`, `worker_verbs` and `control_verbs`. Nothing here knows of sessions, graphs or executors.

Import it only when something is to be connected: it brings aiohttp and msgpack with it.
"""
