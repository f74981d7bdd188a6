"""How a command ends, beside 0: fine, and 2: bad usage or input, told in one sentence."""

DIVERGED = 1
DIFFERS = 1
INTERRUPTED = 130
BROKEN_PIPE = 141
