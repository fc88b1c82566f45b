"""A cluster: the messages between tasks, the channels that carry them, and the worker, master and client.

One remote step: the client sends RunStep to the master, which sends RunGraph to each worker that has a share of the
plan. Workers ask each other for values by RecvTensor, or get them unasked (`worker.remote_rendezvous`). `peer`
is a connected task, `wire` defines and encodes the messages, `transport` carries frames. The specification is
wire/PROTOCOL.md. Import this package only to connect: it loads aiohttp and msgpack.
"""
