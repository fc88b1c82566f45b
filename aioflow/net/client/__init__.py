"""The client of a cluster: the engine of a session whose steps run on a master."""
