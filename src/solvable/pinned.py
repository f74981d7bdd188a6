"""Files in questions: plain data that says which file, "PATH#" and a part of its checksum."""

import os

DIGITS = 16  # of a file's checksum
HEX = set("0123456789abcdef")


def checksum(content: bytes) -> str:
    """Of some bytes, in hexadecimal."""
    import hashlib

    return hashlib.sha256(content).hexdigest()


def path_of(value: str) -> str:
    """The path of a settled file.

    >>> path_of("data/a.csv#0123456789abcdef")
    'data/a.csv'
    """
    path, mark, digits = value.rpartition("#")
    return path if mark and len(digits) == DIGITS and set(digits) <= HEX else value


def short_of(value: str) -> str:
    """A settled file as captions have it: its name, and what tells it from others of that name.

    >>> short_of("data/a.csv#0123456789abcdef")
    'a.csv#01234567'
    """
    return os.path.basename(value)[: 8 - DIGITS]


def pinned(name: str, value: str) -> str:
    """A file with a part of its checksum, or a `ValueError` where it is another one by now."""
    path = path_of(value)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise OSError(0, "it is no plain file")
        with open(path, "rb") as file:
            found = f"{path}#{checksum(file.read())[:DIGITS]}"
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{name} must be a file that can be read, not {path!r} ({why})") from None
    if value not in (path, found):
        raise ValueError(f"{name} must be the file that was asked about, but {path!r} has changed")
    return found
