"""`${env:NAME}` in the value of an option: an environment variable, looked up where the value is used, so
that what is stored, shown or sent to workers has the name alone.

The names that were looked up are kept for the life of the process: `without_environment` takes their values
out of texts that people see.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from tablestore.core.errors import InvalidOption
from tablestore.core.options.secrets import without

ENVIRONMENT = "${env:"  # begins, in the value of an option, the name of an environment variable
_VARIABLE = re.compile(r"\$\{env:([^}]+)\}")
_looked_up: set[str] = set()  # names


def variables(*texts: str) -> list[str]:
    """The names of the environment variables in values of options."""
    return sorted({name for text in texts for name in _VARIABLE.findall(text)})


def value_of(name: str) -> str | None:
    """The value of an environment variable, None for one that is not set."""
    _looked_up.add(name)
    return os.environ.get(name)


def whole_number(name: str, otherwise: int, *, least: int) -> int:
    """The number in an environment variable that holds no secret, `otherwise` where it is not set. Raises
    InvalidOption for what is none, and for a smaller one than `least`."""
    text = os.environ.get(name, str(otherwise))
    if not text.isdecimal() or int(text) < least:
        raise InvalidOption(f"{name}={text!r} must be a whole number, {least:,} or more")
    return int(text)


def store_variables() -> list[str]:
    """The names of the variables that say how object stores are reached, as every S3 client reads them."""
    return sorted(name for name in os.environ if name.startswith("AWS_"))


def resolved(key: str, written: str) -> str:
    """The value of an option with environment variables in place of `${env:NAME}`; raises InvalidOption for
    one that is not set."""
    before, mark, rest = written.partition(ENVIRONMENT)
    if not mark:
        return written
    name, end, behind = rest.partition("}")
    if not end:
        raise InvalidOption(f"option {key!r}: {ENVIRONMENT} without its }}")
    value = value_of(name)
    if value is None:
        raise InvalidOption(f"option {key!r}: the environment variable {name} is not set")
    return before + value + resolved(key, behind)


def are_looked_up(names: Iterable[str]) -> None:
    """Note variables that another process of this job looks up: its errors arrive here as text."""
    _looked_up.update(names)


def without_environment(text: str) -> str:
    """A text with `***` in place of the values of variables that were looked up."""
    return without(text, (value for name in _looked_up if (value := os.environ.get(name))))
