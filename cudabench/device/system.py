"""What Linux tells of the machine: its memory and its caches."""

import os
import re
from pathlib import Path


def host_memory(field: str) -> int:
    """Return a field of Linux's /proc/meminfo in bytes; elsewhere the physical memory."""
    found = re.search(rf"^{field}:\s+(\d+) kB", system_text("/proc/meminfo"), re.MULTILINE)
    if found:
        return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def free_host_memory() -> int:
    """Return what can be allocated without swapping, or before a container's limit."""
    free = host_memory("MemAvailable")
    limit, used = (
        system_text(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current")
    )
    if limit.isdecimal() and used.isdecimal():
        free = min(free, int(limit) - int(used))
    return max(free, 0)


def last_level_cache() -> int | None:
    """Return the size of the CPU's last cache level in bytes, from Linux's sysfs."""
    sizes = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        level, size = system_text(index / "level").strip(), system_text(index / "size").strip()
        if level.isdecimal() and re.fullmatch(r"\d+K", size):
            sizes[int(level)] = int(size[:-1]) * 1024
    return sizes[max(sizes)] if sizes else None


def system_text(path: str | Path) -> str:
    """Return what a file of the system holds, "" where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
