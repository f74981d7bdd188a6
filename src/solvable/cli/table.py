"""The tables that commands read."""

from ..table import Source as Source
from ..table import Table as Table
from ..table import read as read
