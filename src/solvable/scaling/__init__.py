"""Power laws: where they hold."""

from .window import longest_window as longest_window
