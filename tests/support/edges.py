"""Edges between devices, as plans have them, and their keys."""

from aioflow.rendezvous import Edge, Key


def edge(number, source, target, incarnation=1, name="x:0", way=""):
    """The edge of that number. `way` is empty, or the sign of the way that its values go."""
    return Edge(f"{way}{number} {name}", source, incarnation, target)


def edge_key(number, source, target, incarnation=1, iteration=(), **more):
    """The key of a value of that edge."""
    return Key(edge(number, source, target, incarnation, **more), iteration)
