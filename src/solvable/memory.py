"""What does not fit into memory is refused before it is tried."""

import contextlib
import os
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available() -> float:
    """Bytes of memory that a process may still take; infinity where the system does not tell."""
    found = [_limit(Path(path)) for path in _LIMITS]
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable"))
        found.append(1024.0 * float(free.split()[1]))
    except (OSError, StopIteration, ValueError):
        with contextlib.suppress(ValueError, OSError, AttributeError):
            found.append(float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES"))
    return min(found)


def refuse(name: str, value: object, needed: float) -> None:
    """Raise `ValueError` if `needed` bytes for `name` = `value` are more than there are.

    >>> refuse("num_tasks", 1000, 8e3)
    """
    room = available()
    if needed > room:
        raise ValueError(
            f"{name} must be smaller than {value}: that takes about {needed:.2g} bytes of memory, "
            f"and there are {room:.2g}"
        )


def _limit(path: Path) -> float:
    try:
        return float(path.read_text())
    except (OSError, ValueError):  # no such limit, or "max"
        return float("inf")
