"""The other end of `contender.Contender`: requests and answers in lines of fields.

A request is a line, its fields separated by tabs; an answer any number of `name TAB value`, then OK or ERROR.

Imports nothing but the standard library, as it also runs in the environments of peers.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping

Answer = Mapping[str, object]


def serve(steps: Mapping[str, Callable[..., Answer]]) -> None:
    """Answer requests until standard input ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not look like an answer
    for line in sys.stdin:
        name, *fields = line.rstrip("\n").split("\t")
        try:
            for key, value in steps[name](*fields).items():
                print(key, value, sep="\t", file=answers)
            print("OK", file=answers, flush=True)
        except Exception as error:  # whatever it is, it is the answer
            traceback.print_exc()
            text = " ".join(f"{type(error).__name__}: {error}".split())
            print(f"ERROR {text}", file=answers, flush=True)
