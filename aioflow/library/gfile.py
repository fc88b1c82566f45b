"""`af.gfile`: files and folders under the names of TensorFlow's `gfile`. These functions block."""

from aioflow.lazy import Face

_face = Face(__name__, {
    "aioflow.files.gfile": (
        "Copy=copy DeleteRecursively=rmtree Exists=exists FastGFile=GFile GFile Glob=glob IsDirectory=isdir "
        "ListDirectory=listdir MakeDirs=makedirs MkDir=mkdir Open=GFile Remove=remove Rename=rename Stat=stat Walk=walk"
    ),
})  # fmt: skip
