"""How notebooks show graphs, tensors, variables, queues, datasets, models, placements, reports, traces and progress.

The objects themselves have `_repr_html_`, which calls a function of this folder. `markup` makes elements whose texts
are escaped; `card` is the frame around each picture, with styles that inherit the colours of a dark or light notebook.
Pictures have no script and a bounded size. `live` shows `progress` in an output that changes while a cell runs. This
folder imports no class that it shows, except for type checkers.
"""
