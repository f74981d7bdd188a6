"""Pictures as the content of files."""

from collections.abc import Callable
from io import BytesIO
from typing import Any

from ..style import figure_style


def saved(kind: str, make: Callable[[], Any]) -> bytes:
    """A figure, made in our style, as the content of a file; the same figure, the same file."""
    content = BytesIO()
    dateless = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with figure_style():
        make().savefig(content, format=kind, metadata=dateless.get(kind))
    return content.getvalue()
