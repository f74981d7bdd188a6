"""Folders with a manifest, which tells whether they are as they were written."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


def seal(folder: Path, **facts: Any) -> None:
    """Write the manifest: facts, and checksums of all files; everything reaches the disk."""
    folders = [folder]
    files: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            folders.append(path)
        elif path != folder / MANIFEST:
            files[path.relative_to(folder).as_posix()] = _checksum(path)
            sync(path)
    body = {**facts, "files": files}
    text = json.dumps({**body, "digest": _digest(body)}, ensure_ascii=False, indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    sync(folder / MANIFEST)
    for each in folders:
        sync(each)


def manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder.

    Raises:
        ValueError: where there is none, or it is not as it was written; says which.
    """
    try:
        body = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        digest = body.pop("digest")
    except FileNotFoundError:
        raise ValueError(f"has no {MANIFEST}") from None
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        raise ValueError(f"has a {MANIFEST} that cannot be read") from None
    if digest != _digest(body):
        raise ValueError(f"has a {MANIFEST} that was changed")
    return body


def damaged(folder: Path, body: dict[str, Any]) -> list[str]:
    """The files of a manifest that are missing or not as they were written, and those too many."""
    known: dict[str, str] = body["files"]
    found = []
    for name, checksum in known.items():
        try:
            good = _checksum(folder / name) == checksum
        except OSError:
            good = False
        if not good:
            found.append(name)
    roots = {name.partition("/")[0] for name in known if "/" in name}
    for root in sorted(roots):  # a chunk too many is read as data
        inside = (path for path in (folder / root).rglob("*") if not path.is_dir())
        names = (path.relative_to(folder).as_posix() for path in inside)
        found += sorted(name for name in names if name not in known)
    return found


def sync(path: Path) -> None:
    """Let a file, or the renames within a folder, reach the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
