"""`${env:NAME}` in the value of an option: an environment variable, looked up where the value is used, so
that what is stored, shown or sent to workers has the name alone; and servers that may get what this process
holds.

The names that were looked up are kept for the life of the process: `without_environment` takes their values
out of texts that people see.

A table names the servers of its log in its own files, and anyone may have written them. What the process
holds (passwords, other variables of the environment, files) goes to such a server only if the user named it:
in TABLESTORE_TRUSTED_SERVERS, `host:port` with commas between them, or in a call of this process, as
`lake.tier("fluss://user@host:port")` does. An address that the user gives in a call needs no entry, nor does
a coordinator that this process has started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from tablestore.core.errors import InvalidOption, InvalidRequest
from tablestore.core.options.secrets import without

TRUSTED_SERVERS = "TABLESTORE_TRUSTED_SERVERS"
_ADDRESS = re.compile(r"(?:([a-z_]+)://)?([a-z0-9_.-]+|\[[0-9a-f:.]+\])(?::(\d{1,5}))?(?:/[^@\s]*)?")
_PORTS = {"http": 80, "https": 443}
_KAFKA_PORT = 9092  # of librdkafka, where an address has none
_named: set[tuple[str, int]] = set()  # by calls of this process
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


def trust(*addresses: str) -> None:
    """Note servers that the user named in a call."""
    for text in addresses:
        _named.update(_places(text))


def require_trusted(what: str, addresses: Iterable[str]) -> None:
    """Raise InvalidRequest unless the user named every server of these texts, each `host:port` or the address
    of a page, with commas between several. `what` is that which would be sent, in words."""
    trusted = _named | _places(os.environ.get(TRUSTED_SERVERS, ""))
    given = [text for address in addresses for text in _split(address)]
    unknown = list(dict.fromkeys(text for text in given if _place(text) not in trusted))
    places = [place for place in map(_place, unknown) if place is not None]
    if len(places) < len(unknown) or not given:
        named = ", ".join(repr(text) for text in unknown if _place(text) is None)
        raise InvalidRequest(
            f"the table's options would send {what} to {named or 'no server'}, which is no "
            "address host:port: nothing is sent; change the table's options"
        )
    if unknown:
        entries = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places)
        raise InvalidRequest(
            f"the table's options would send {what} to {', '.join(unknown)}, which you did not name: where "
            f"that is meant, set the variable {TRUSTED_SERVERS}={entries} (commas between several)"
        )


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _places(text: str) -> set[tuple[str, int]]:
    return {place for place in map(_place, _split(text)) if place is not None}


def _place(text: str) -> tuple[str, int] | None:
    """The host and the port of an address; None for a text that is none, or that clients may read in more
    than one way."""
    matched = _ADDRESS.fullmatch(text.lower())
    if matched is None:
        return None
    scheme, host, port = matched.groups()
    return host.strip("[]"), int(port or _PORTS.get(scheme, _KAFKA_PORT))
