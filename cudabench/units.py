"""Units at the edge: counts as people type them, seconds and bytes as people read them."""

import math
import re

from cudabench.errors import BadInputError

_LARGEST = 2**63 - 1
_BINARY_PREFIXES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def parse_count(text: str, name: str = "n") -> int:
    """Return the whole number of at least 1 that `text` spells.

    Accepts `1048576`, `1_048_576`, `2^20` and `1Mi` (Ki, Mi, Gi, Ti: powers of 1024).

    Raises:
        BadInputError: `text` spells no whole number from 1 to 2^63 - 1.
    """
    written = text.strip()
    power = re.fullmatch(r"(\d{1,9})(?:\^|\*\*)(\d{1,3})", written, re.ASCII)
    plain = re.fullmatch(r"([+-]?\d[\d_]{0,40})(Ki|Mi|Gi|Ti|)", written, re.ASCII)
    if power:
        value = math.prod([int(power[1])] * int(power[2]))
    elif plain:
        value = int(plain[1].replace("_", "")) * _BINARY_PREFIXES[plain[2]]
    else:
        raise BadInputError(
            f"{name} must be a whole number, got {text!r}", "Write it as 1048576, 2^20 or 1Mi"
        )
    if value < 1:
        raise BadInputError(f"{name} must be at least 1, got {text}", f"Try --{name} 1048576")
    if value > _LARGEST:
        raise BadInputError(
            f"{name} = {text} does not fit in 64 bits", f"Use a smaller {name}, such as 2^28"
        )
    return value


def parse_device(text: str) -> tuple[str, int]:
    """Return the kind of device that `text` names, `auto`, `cuda` or `host`, and its index.

    Raises:
        BadInputError: It is none of auto, cuda, cuda:K and host.
    """
    named = re.fullmatch(r"(auto|cuda|host)|cuda:(\d{1,4})", text, re.ASCII)
    if named is None:
        raise BadInputError(f"unknown device {text!r}", "Use auto, cuda, cuda:K or host")
    return named[1] or "cuda", int(named[2] or 0)


def microseconds(seconds: float) -> str:
    """Return `seconds` in microseconds without the unit: `3.58`, `186.3`, `13,501`."""
    value = seconds * 1e6
    decimals = 2 if abs(value) < 99.995 else 1 if abs(value) < 999.95 else 0
    return f"{value:,.{decimals}f}"


def duration(seconds: float) -> str:
    """Return `seconds` with three figures and a unit, such as `18.4 us`."""
    for scale, unit in ((1e-6, "us"), (1e-3, "ms")):
        if abs(seconds) < 999.5 * scale:
            return f"{_three_figures(seconds / scale)} {unit}"
    return f"{_three_figures(seconds)} s"


def gigabytes_per_second(bytes_per_second: float) -> str:
    """Return a bandwidth in GB/s (1e9 bytes a second), without the unit."""
    return f"{bytes_per_second / 1e9:,.1f}"


def size(count: int) -> str:
    """Return a number of bytes with a binary unit, such as `12.0 MiB`."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def _three_figures(value: float) -> str:
    decimals = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{decimals}f}"
