"""Bad input, asked in a process of its own: the tests' own type checks would answer first."""

import json
import re
import subprocess
import sys

_SCRIPT = """
import json, sys
import jax
jax.config.update("jax_enable_x64", True)
{setup}
answers = {{}}
for case in json.load(sys.stdin):
    try:
        eval(case)
        answers[case] = ["nothing", ""]
    except Exception as error:
        answers[case] = [type(error).__name__, str(error)]
print(json.dumps(answers))
"""


def answers_to(cases: list[str], setup: str) -> dict[str, list[str]]:
    """The kind and the words of the error that each expression raises, after `setup`."""
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(setup=setup)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def is_one_sentence(answer: list[str], words: str) -> None:
    """A `ValueError` in one line with the words expected."""
    kind, message = answer
    assert kind == "ValueError", (kind, message)
    assert re.search(words, message), message
    assert "\n" not in message
