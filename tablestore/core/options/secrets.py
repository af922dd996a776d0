"""Secrets among options: which names mean one, and where they belong.

A table's options are in its schema files, which every reader of the table sees, so no secret is stored there:
secrets are passed to the catalog or come from the environment. One that another engine stored is shown as
`***`. The names are those of Paimon, Flink, Hadoop, Kafka, librdkafka and the object stores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from tablestore.core.errors import InvalidOption

HIDDEN = "***"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words of a name, and parts of a name without what stands between its words: `accesskey`, `access-key`.
_WORDS = frozenset("pwd token tokens sas jaas cookie authorization".split())
_PARTS = (
    *("password", "passwd", "passphrase", "secret", "credential", "signature", "userinfo"),
    *("accesskey", "accountkey", "apikey", "encryptionkey", "privatekey", "sharedkey", "connectionstring"),
)
# `key` alone is a primary key, a bucket key, the key of a message; among these words it is one of a cipher.
_CIPHERS = frozenset("ssl tls sse cse keystore crypto cipher aes hmac rsa pgp".split())
_FORMS = frozenset(["pem", "base", "64", "data", "text", "value"])  # in which a key is given
_OF_COLUMNS = ("fields.", "file-index.")
_LOOKED_UP = ("kafka.", "debezium-avro-confluent.")  # whose `${env:NAME}` is looked up
_FROM_ENVIRONMENT = re.compile(r"\$\{env:[^}]+\}(:\$\{env:[^}]+\})?")
_IN_ADDRESS = re.compile(r"""(?<=://)[^/@\s'"]*:(?!\d+[/?])[^\s'"]*(?=@)""")
_BARE_ADDRESS = re.compile(  # of brokers and servers of Fluss
    r"""(?<![\w/@:.%+-])[\w.%+-]+:(?!//)((?:(?!://)[^\s,'"])+)@(?=(?:[\w.-]+|\[[\da-fA-F:]+\]):\d)"""
)
_PARAMETER = re.compile(r"""(?:^|(?<=[?&;,]))\s*([\w.-]+)\s*=\s*([^&;,'"]+)""")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY.*", re.DOTALL)
_ALONE = 4  # characters below which a value is replaced only where it stands alone


def is_secret(key: str) -> bool:
    """Whether a name means a secret: `s3.secret-key`, `fs.oss.accessKeySecret`, `jdbc.password`, …"""
    if key.startswith(_OF_COLUMNS):
        return False
    words = [word.lower() for word in _WORD.findall(key)]
    whole = "".join(words)
    if not _WORDS.isdisjoint(words) or any(part in whole for part in _PARTS):
        return True
    while words and words[-1] in _FORMS:
        words.pop()
    return words[-1:] == ["key"] and not _CIPHERS.isdisjoint(words)


def is_from_environment(value: str) -> bool:
    """Whether a value is `${env:NAME}` or `${env:USER}:${env:PASSWORD}`, and holds nothing itself."""
    return _FROM_ENVIRONMENT.fullmatch(value.strip()) is not None


def require_no_secrets(options: Mapping[str, str], *, of: str = "table") -> None:
    """Raise InvalidOption for an option that is a secret, or an address with a password in it; `of` says
    whose options they are."""
    for key, value in options.items():
        looked_up = key.startswith(_LOOKED_UP)
        if is_secret(key) and looked_up and is_from_environment(value):
            continue
        if is_secret(key) or scrubbed(value) != value:
            place = (
                "write it as ${env:NAME}, from the environment"
                if looked_up
                else "give it to connect(…) or open(…, options={…}), or set it in the environment (AWS_…)"
            )
            raise InvalidOption(
                f"option {key!r} holds a secret, and a {of}'s options can be read by everyone who reads the "
                f"{of}; {place}"
            )


def hidden(options: Mapping[str, str]) -> dict[str, str]:
    """The options for display: secrets that another engine stored are `***`."""
    return {key: _shown(key, str(value)) for key, value in options.items()}


def _shown(key: str, value: str) -> str:
    if is_secret(key):
        return value if is_from_environment(value) else HIDDEN
    return scrubbed(value)


def secret_spans(value: str) -> list[tuple[int, int]]:
    """Where in the value of an option secrets stand, as (start, end): the user and password of an address,
    the password of user:password@host:port, parameters such as `…?password=…`, a private key."""
    spans = [match.span() for pattern in (_IN_ADDRESS, _PRIVATE_KEY) for match in pattern.finditer(value)]
    spans += [match.span(1) for match in _BARE_ADDRESS.finditer(value)]
    spans += [match.span(2) for match in _PARAMETER.finditer(value) if is_secret(match[1])]
    return sorted(spans)


def scrubbed(text: str) -> str:
    """`text` without the passwords of addresses: `postgresql://user:pass@host`, `…?password=…`."""
    return replaced(text, secret_spans(text))


def replaced(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with `***` in place of each span (start, end); `spans` are sorted and may overlap."""
    parts, at = [], 0
    for start, end in spans:
        if end > at and end > start:
            parts += [text[at:start], HIDDEN] if start >= at else []
            at = end
    return "".join([*parts, text[at:]])


def without(text: str, values: Iterable[str]) -> str:
    """The text with `***` in place of each of these values, also as Python, JSON and addresses write them. A
    value of up to three characters is replaced only where no letter or digit stands next to it."""
    forms = {f for v in values if v for f in (v, repr(v)[1:-1], json.dumps(v)[1:-1], quote(v, safe=""))}
    for form in sorted(forms, key=len, reverse=True):
        pattern = re.escape(form)
        text = re.sub(pattern if len(form) >= _ALONE else rf"(?<!\w){pattern}(?!\w)", HIDDEN, text)
    return text
