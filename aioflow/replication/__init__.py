"""Replicas that train together: the gradients of a step, their staleness, and the replicas that wait for a decision.

Input: gradients and arrivals of replicas. Output: decisions, which are the same for all variables, and waits that end.
`quorum` decides for synchronous training, `turns` for asynchronous training, `shares` keeps the gradients of one
variable. This folder knows no graph, session or network.
"""
