"""The client of a cluster: the engine of a session whose steps run on a master.

Input: the calls of `Session`. Output: requests to the master, and the values or errors of its answers. `client` opens
the session, sends what was added to the graph, and runs steps; `open_session` keeps taken elements safe until the
caller has them; `queue` serves `session.queue`. This folder never plans a step and never holds a variable.
"""
