"""Properties of librdkafka: which name files of this machine, and which are never taken.

A table stores the properties of its log, and anyone may have written a table: what loads a library or runs a
command is refused wherever a client is made. What takes a variable of the environment, a file or the identity
of this machine to servers that the table names is refused unless the user trusts them. Names are those of
librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from tablestore.core.errors import Unsupported
from tablestore.core.options.environment import ENVIRONMENT, require_trusted

_FILES = ("location", "keytab", "file", "path", "paths", "cmd")  # the last words of properties that name one
_CODE = {
    "plugin.library.paths": "it loads libraries into the process",
    "sasl.kerberos.kinit.cmd": "it runs a command; the client's own kinit is run without it",
    "ssl.engine.location": "it loads a library into the process",
    "ssl.providers": "they are libraries that are loaded into the process",
}

_SERVERS = ("bootstrap.servers", "metadata.broker.list")
_IDENTITY = "sasl.oauthbearer."  # a token, which may be that of the machine


def names_file(key: str) -> bool:
    """Whether a property, with or without what stands before its name, has a path as its value."""
    return key.lower().rpartition(".")[2] in _FILES


def require_no_code(properties: Iterable[tuple[str, str]]) -> None:
    """Raise Unsupported for a property that makes the client run something."""
    for key, _ in properties:
        if key in _CODE:
            raise Unsupported(f"property {key!r} of Kafka", _CODE[key])


def require_trusted_servers(properties: Iterable[tuple[str, str]]) -> None:
    """Raise InvalidRequest where the properties that a table stores take something of this process to a
    server that the user did not name."""
    given = list(properties)
    own = [
        key for key, value in given if ENVIRONMENT in value or names_file(key) or key.startswith(_IDENTITY)
    ]
    if own:
        servers = [value for key, value in given if key in _SERVERS or key.endswith("url")]
        require_trusted(f"what 'kafka.{own[0]}' stands for", servers)
