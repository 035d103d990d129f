"""How long a custom PyTorch CUDA operator really takes, and why the obvious timings are wrong."""

__version__ = "0.1.0"
