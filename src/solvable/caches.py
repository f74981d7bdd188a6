"""Where things are kept that can be made again."""

import os
from pathlib import Path


def base_folder() -> Path:
    """``$SOLVABLE_CACHE``, else ``solvable`` in the user's cache folder."""
    base = os.environ.get("SOLVABLE_CACHE")
    if not base:
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        base = os.path.join(caches, "solvable")
    return Path(base).absolute()
