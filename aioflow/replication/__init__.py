"""Replicas that train together: which gradients make a step, and how stale a gradient may be.

Input: gradients and announcements of replicas. Output: decisions on which gradients count, and futures for the replicas
that wait for them. `quorum` decides and adds gradients, `staleness` decides for asynchronous replicas, `waitable` lets
steps wait. This folder never computes a gradient and never touches the network.
"""
