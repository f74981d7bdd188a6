"""``solvable completion``: the shell learns the commands and options."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

INSTALL = """\
the shell; a new one completes after one of
bash: solvable completion bash > ~/.local/share/bash-completion/completions/solvable
zsh:  solvable completion zsh > DIR/_solvable, with DIR in $fpath
fish: solvable completion fish > ~/.config/fish/completions/solvable.fish
"""


@dataclass(frozen=True)
class Completion:
    """Print a completion script for a shell; its --help says how to install it."""

    shell: Annotated[
        Literal["bash", "zsh", "fish"], tyro.conf.Positional, tyro.conf.arg(help=INSTALL)
    ]

    def run(self) -> int:
        """Print the script, which tyro makes from the tree of commands."""
        from .commands import parse

        parse(["--tyro-write-completion", self.shell, "-"])
        return 0
