"""The master service: the sessions of clients, their plans over all tasks, and their steps.

Input: requests of clients. Output: for each step a RunGraph for every worker that has a share of the plan, and one
answer to the client. `master` keeps the sessions, `session` runs their steps, `registered_plans` plans and registers,
`fan_out` chooses the tasks that ask others, `doubts` settles steps whose values a client may not have, and ends failed
steps on every task. The master never computes a value; the worker beside it does.
"""
