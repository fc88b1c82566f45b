"""What users compose from ops, with its gradients: variables, control flow, layers of nodes."""
