"""Write msfr_figures.json: what every claim of the msfr figures measures at the quick size.

    python tests/oracles/make_msfr_figures.py

These are not independent numbers: they say when a figure has changed, so that it is looked at. Run
it after a change that is meant, look at what changed, and say so in the CHANGELOG.
"""

import json
import tempfile
from pathlib import Path

from solvable import reproduce

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as out:
        outcomes = reproduce.run(["msfr"], out=out, size="quick")
    rows = {
        claim.id: {"measured": claim.measured, "verdict": claim.verdict}
        for outcome in outcomes
        for claim in outcome.claims
    }
    path = Path(__file__).with_name("msfr_figures.json")
    path.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"wrote {len(rows)} claims to {path.name}")
