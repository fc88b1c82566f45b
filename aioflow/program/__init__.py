"""From plan to program: nodes grouped into units, and units that never wait compiled into coroutines.

Input: the flow of one device. Output: a frozen `Program` for the executor: units, and the edges between them.
`assemble` leads, `binder` chooses kernels, `codegen` writes the source and holds the only `exec` of aioflow, `ready`
counts what each unit still waits for, and `error_location` turns an exception into an error that names the user's
line. A program is assembled without the objects of a session, and linked with them: see `handles`. This folder never
runs a step, and it never imports a session or the network.
"""
