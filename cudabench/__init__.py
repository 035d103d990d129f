"""How long a custom PyTorch CUDA operator really takes, and why the obvious timings are wrong."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudabench.api import measure
    from cudabench.errors import MeasurementWarning
    from cudabench.records import Estimate

__version__ = "0.1.0"

__all__ = ["Estimate", "MeasurementWarning", "__version__", "measure"]

_HOMES = {"Estimate": "records", "MeasurementWarning": "errors", "measure": "api"}


def __getattr__(name: str) -> Any:
    """Load a public name where it is first asked for: `--help` needs none of them."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
