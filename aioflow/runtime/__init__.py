"""One run of a step.

`Session.run` finds the `call.Call` of its fetches and feeds. The call asks `plan_cache` for the plan and its
programs, `feeds` converts the values, and `step.Step.run` executes: a program of one unit by `run_alone`; else an
`executor.Execution` for each device, which end together (`join`). In a cluster an `exchange_step.ExchangeStep` runs
a share of one unit that waits for values of other tasks. A `device_executor.DeviceExecutor` drives each
unit, on the event loop while it is light, otherwise on a compute thread. `fetches` builds the result in the structure
that the caller asked for. This folder does not know whether a session is local or remote: `engine` is that boundary.
"""
