"""Probing: where in a BERT-type encoder the one word that matters can be read off [CLS].

Needs ``pip install 'solvable[probing]'``, but for the sentences.
"""

from .encoder import Encoder as Encoder
from .encoder import Features as Features
from .encoder import features as features
from .encoder import open_encoder as open_encoder
from .experiment import run as run
from .extra import missing as missing
from .probe import PROBES as PROBES
from .probe import Probe as Probe
from .probe import fit as fit
from .sentences import SentenceSet as SentenceSet
from .sentences import sentence_sets as sentence_sets
