"""The public names of TensorFlow's v1 API, and the state of each in aioflow: `docs/tensorflow-names.md`."""
