"""The devices that kernels run on."""
