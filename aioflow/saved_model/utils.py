"""`af.saved_model.utils`: descriptions of tensors."""

from aioflow.lazy import Face

_face = Face(__name__, {"aioflow.saved_model.tensor_info": "build_tensor_info get_tensor_from_tensor_info"})
