"""The worker service: it runs the share of its task in each step, and serves values and queues to other tasks.

Input: RegisterGraph and RunGraph of masters, RecvTensor of workers. Output: fetched values, and values of the local
rendezvous. `worker` registers and runs shares, which `registration` reads, and asks other workers where the master
wants that; an `exchanging_share` runs without an asyncio task. `step_table` keeps the open steps, `remote_rendezvous`
receives values of other tasks and pushes values. This folder never plans, and it knows no client.
"""
