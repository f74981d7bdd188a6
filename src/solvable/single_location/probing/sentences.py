"""The sentences: one adjective, of the animal, carries the label; all else is to be ignored."""

import hashlib
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

Slot = tuple[str, ...]

SIGNS: Mapping[str, int] = {
    "nice": 1,
    "mean": -1,
    "cute": 1,
    "dreadful": -1,
    "aggressive": -1,
    "delightful": 1,
    "lovely": 1,
    "nasty": -1,
    "charming": 1,
    "foul": -1,
}
ADJECTIVE = tuple(SIGNS)[:6]
NEW_ADJECTIVE = tuple(SIGNS)[6:]

# The adjective of the city is no cue: it can be the very word that decides elsewhere.
CITY = tuple(f"The city is {word}." for word in ("nice", "dreadful", "clean", "dirty"))
HELLO = ("Hello, how are you?",)
GREETING = ("Good evening,",)
IS = ("is",)


@dataclass(frozen=True)
class _Words:
    """The words of a vocabulary that carry no sign."""

    pronoun: Slot
    colour: Slot
    animal: Slot
    adverb: Slot
    size: Slot


TRAIN = _Words(
    pronoun=("my", "his", "her", "our"),
    colour=("", "blue", "orange", "beige", "green", "red"),
    animal=("dog", "owl", "cow"),
    adverb=("", "very", "extremely"),
    size=("tiny", "giant"),
)
TEST = _Words(
    pronoun=("their", "your"),
    colour=("purple", "gray"),
    animal=("cat", "eagle", "goat"),
    adverb=("", "especially"),
    size=("big", "little", "mini", "enormous"),
)


@dataclass(frozen=True)
class SentenceSet:
    """Sentences and their labels.

    Attributes:
        name: by which it is asked for.
        sentences: in the order of the slots' product; a sentence may come twice.
        labels: 1 where the animal's adjective is kind, −1 where it is not.
    """

    name: str
    sentences: tuple[str, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.sentences) != len(self.labels):
            raise ValueError("sentences and labels must be as many")

    def __len__(self) -> int:
        return len(self.sentences)

    @property
    def positive(self) -> float:
        """The fraction of positive labels."""
        return self.labels.count(1) / len(self)

    @property
    def distinct(self) -> tuple[str, ...]:
        """Every sentence once."""
        return tuple(dict.fromkeys(self.sentences))

    def sampled(self, count: int, seed: int) -> "SentenceSet":
        """`count` of the distinct sentences, half of them positive, or all where there are fewer.

        A sentence that comes twice is drawn once and still comes twice.
        """
        label_of = dict(zip(self.sentences, self.labels, strict=True))
        if count >= len(label_of):
            return self
        draw = random.Random(seed)
        chosen: set[str] = set()
        for sign in (1, -1):
            chosen.update(draw.sample([s for s in label_of if label_of[s] == sign], count // 2))
        pairs = zip(self.sentences, self.labels, strict=True)
        return _of(self.name, [(s, label) for s, label in pairs if s in chosen])


def _of(name: str, pairs: Iterable[tuple[str, int]]) -> SentenceSet:
    sentences, labels = zip(*pairs, strict=True)
    return SentenceSet(name, sentences, labels)


def _pattern(*slots: Slot) -> list[tuple[str, int]]:
    """Every choice of words, one a slot, with its label; empty words leave no gap."""
    return [
        (" ".join(word for word in words if word), math.prod(SIGNS.get(word, 1) for word in words))
        for words in product(*slots)
    ]


def _adjective_last(words: _Words, *, before: Sequence[Slot], adjective: Slot = ADJECTIVE):
    return _pattern(*before, words.pronoun, words.colour, words.animal, IS, words.adverb, adjective)


def _adjective_first(words: _Words):
    return _pattern(
        CITY, words.pronoun, words.colour, ADJECTIVE, words.animal, IS, words.adverb, words.size
    )


@cache
def sentence_sets() -> Mapping[str, SentenceSet]:
    """Every set by its name.

    The published five are "train", "test", "ood-tokens", "ood-structure" and "ood-both". The
    published "test" joins two lists that are meant to differ in their order of words and do not:
    it is 2304 sentences twice, none of which ends with the adjective. Beside it therefore
    "test-once", those sentences once, and "test-last", the same words in the order that is missing.

    Reference: the paper's probing experiment; sizes and words as in its published notebook.

    >>> {name: len(each) for name, each in sentence_sets().items()}
    ... # doctest: +NORMALIZE_WHITESPACE
    {'train': 15552, 'test': 4608, 'test-once': 2304, 'test-last': 576, 'ood-tokens': 3072,
     'ood-structure': 144, 'ood-both': 96}
    >>> sentence_sets()["train"].sentences[0], sentence_sets()["train"].labels[0]
    ('The city is nice. my dog is nice', 1)
    """
    w, new, greeted = TEST, NEW_ADJECTIVE, (HELLO, GREETING)
    once = _adjective_first(TEST)
    tokens = _pattern(CITY, GREETING, w.pronoun, w.size, w.colour, w.animal, IS, w.adverb, new)
    tokens += _pattern(CITY, GREETING, w.pronoun, new, w.colour, w.animal, IS, w.adverb, w.size)
    lists = {
        "train": _adjective_last(TRAIN, before=(CITY,)) + _adjective_first(TRAIN),
        "test": once + once,
        "test-once": once,
        "test-last": _adjective_last(TEST, before=(CITY,)),
        "ood-tokens": tokens,
        "ood-structure": _adjective_last(TEST, before=greeted),
        "ood-both": _adjective_last(TEST, before=greeted, adjective=NEW_ADJECTIVE),
    }
    return {name: _of(name, pairs) for name, pairs in lists.items()}


def digest(sentences: Iterable[str]) -> str:
    """Of sentences in their order.

    >>> digest(["a b"]) == digest(["a", "b"])
    False
    """
    return hashlib.sha256("\n".join(sentences).encode()).hexdigest()[:32]
