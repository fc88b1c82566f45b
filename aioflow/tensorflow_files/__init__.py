"""TensorFlow's own files without TensorFlow: graphs, checkpoints and saved models, as ordinary aioflow graphs.

Input: a frozen graph as a file or bytes, or the directory of a saved model. Output: operations of a graph under
TensorFlow's names. `messages` lists the messages of protocol buffers, `reading` checks them and makes nodes of them,
`missing` lists what aioflow cannot build, and `build` walks the nodes. `operators` has one function for each op of
TensorFlow, which builds operations. This folder never runs an operation itself. Checkpoints of TensorFlow are read by
`aioflow.checkpoint`, wherever aioflow's own are.
"""

from aioflow.lazy import Face

_face = Face(__name__, {"aioflow.tensorflow_files.importing": "import_graph_def"})
