"""`af.saved_model.builder`: the class that saves a model."""

from aioflow.lazy import Face

_face = Face(__name__, {"aioflow.saved_model.saved_model_builder": "SavedModelBuilder"})
