"""Secrets among options: which names mean one, and where they belong.

A table's options are in its schema files, which every reader of the table sees, so no secret is stored there:
secrets are passed to the catalog or come from the environment. One that another engine stored is shown as
`***`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise

from tablestore.core.errors import InvalidOption

HIDDEN = "***"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_WORDS = frozenset(
    "password sslpassword passwd pwd passphrase secret token credential credentials sas jaas".split()
)
_KEYS = frozenset("access account api encryption private secret shared".split())  # … key
_OF_COLUMNS = ("fields.", "file-index.")
_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*(?=@)|(?<=[?&;])(password|pwd)=[^&;\s]*", re.IGNORECASE)


def is_secret(key: str) -> bool:
    """Whether a name means a secret: `s3.secret-key`, `fs.oss.accessKeySecret`, `jdbc.password`, …"""
    if key.startswith(_OF_COLUMNS):
        return False
    words = [word.lower() for word in _WORD.findall(key)]
    return bool(_WORDS.intersection(words)) or any(b == "key" and a in _KEYS for a, b in pairwise(words))


def require_no_secrets(options: Mapping[str, str]) -> None:
    """Raise InvalidOption for an option that is a secret, or an address with a password in it."""
    for key, value in options.items():
        if is_secret(key) or scrubbed(value) != value:
            raise InvalidOption(
                f"option {key!r} holds a secret, and a table's options can be read by everyone who reads the "
                "table; give it to connect(…) or open(…, options={…}), or set it in the environment (AWS_…)"
            )


def hidden(options: Mapping[str, str]) -> dict[str, str]:
    """The options for display: secrets that another engine stored are `***`."""
    return {key: HIDDEN if is_secret(key) else scrubbed(str(value)) for key, value in options.items()}


def scrubbed(text: str) -> str:
    """`text` without the passwords of addresses: `postgresql://user:pass@host`, `…?password=…`."""
    return _IN_ADDRESS.sub(HIDDEN, text)
