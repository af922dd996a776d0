"""`${env:NAME}` in the value of an option: an environment variable, looked up where the value is used, so
that what is stored, shown or sent to workers has the name alone."""

from __future__ import annotations

import os
import re

from tablestore.core.errors import InvalidOption

ENVIRONMENT = "${env:"  # begins, in the value of an option, the name of an environment variable
_VARIABLE = re.compile(r"\$\{env:([^}]+)\}")


def variables(*texts: str) -> list[str]:
    """The names of the environment variables in values of options."""
    return sorted({name for text in texts for name in _VARIABLE.findall(text)})


def resolved(key: str, written: str) -> str:
    """The value of an option with environment variables in place of `${env:NAME}`; raises InvalidOption for
    one that is not set."""
    before, mark, rest = written.partition(ENVIRONMENT)
    if not mark:
        return written
    name, end, behind = rest.partition("}")
    if not end:
        raise InvalidOption(f"option {key!r}: {ENVIRONMENT} without its }}")
    if name not in os.environ:
        raise InvalidOption(f"option {key!r}: the environment variable {name} is not set")
    return before + os.environ[name] + resolved(key, behind)
