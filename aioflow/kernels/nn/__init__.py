"""Ops of neural networks: convolution, pooling, activations, normalisation, losses, updates by optimizers."""
