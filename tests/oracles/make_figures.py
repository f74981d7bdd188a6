"""Write LAB_figures.json: what every claim of a lab's figures measures at the quick size.

    python tests/oracles/make_figures.py LAB

These are not independent numbers: they say when a figure has changed, so that it is looked at. Run
it after a change that is meant, look at what changed, and say so in the CHANGELOG.
"""

import json
import sys
import tempfile
from pathlib import Path

from solvable import reproduce

if __name__ == "__main__":
    (lab,) = sys.argv[1:]
    with tempfile.TemporaryDirectory() as out:
        outcomes = reproduce.run([lab], out=out, size="quick")
    rows = {
        claim.id: {"measured": claim.measured, "verdict": claim.verdict}
        for outcome in outcomes
        for claim in outcome.claims
    }
    path = Path(__file__).with_name(f"{lab}_figures.json")
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"wrote {len(rows)} claims to {path.name}")
