"""S3Options: how to reach an S3-compatible store, under Paimon's option names.

`s3.endpoint`, `s3.access-key`, `s3.secret-key`, `s3.session-token`, `s3.region`, `s3.path.style.access`; the
prefixes `s3a.` and `fs.s3a.` and dots in place of dashes mean the same. What is absent comes from the
environment (`AWS_…`), as every S3 client does it. `s3.conditional-put` = false is ours: the store's
put-if-absent is not trusted, so commits need a catalog's lock. Secrets appear in no repr, log or error, and a
pickle contains them packed, so that a dump of it shows none in plain text. Immutable.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit

from tablestore.core.errors import InvalidOption
from tablestore.core.options.secrets import scrubbed

PACKED = "tablestore.store"  # option with all the others packed, for other processes
PREFIXES = ("s3.", "s3a.", "fs.s3a.")
_SECRET = ("access_key", "secret_key", "session_token")
_FLAGS = {"path_style", "conditional_put"}
_NAMES = {
    "endpoint": "endpoint",
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "region": "region",
    "endpoint.region": "region",
    "path.style.access": "path_style",
    "conditional.put": "conditional_put",
}


@dataclass(frozen=True, slots=True, repr=False)
class S3Options:
    """Endpoint, credentials and addressing of one store."""

    endpoint: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    session_token: str | None = None
    region: str | None = None
    path_style: bool | None = None
    conditional_put: bool | None = None

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> S3Options:
        """The S3 part of a catalog's options; other keys are ignored. Raises InvalidOption."""
        if options.get(PACKED):
            return unpack(str(options[PACKED]).encode())
        fields: dict[str, Any] = {}
        for key, value in options.items():
            field = _NAMES.get(plain_key(key)) if is_s3_key(key) else None
            if field is not None and value is not None:
                fields[field] = str(value)
        for name in _FLAGS & fields.keys():
            fields[name] = _flag(name, fields[name])
        _require_address(fields.get("endpoint"))
        return cls(**fields)

    def client_arguments(self) -> dict[str, Any]:
        """The arguments of obstore's S3Store. A custom endpoint is addressed by path unless the options say
        otherwise."""
        arguments: dict[str, Any] = {
            "endpoint": self.endpoint,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "session_token": self.session_token,
            "region": self.region or ("us-east-1" if self.endpoint else None),
        }
        if self.path_style is not None or self.endpoint is not None:
            arguments["virtual_hosted_style_request"] = self.path_style is False
        return {k: v for k, v in arguments.items() if v is not None}

    def scrub(self, text: str) -> str:
        """`text` without any secret of these options."""
        for name in _SECRET:
            secret = getattr(self, name)
            if secret:
                text = text.replace(secret, "***")
        return text

    def __repr__(self) -> str:
        shown = {k: "***" if k in _SECRET else v for k, v in asdict(self).items() if v is not None}
        return f"S3Options({', '.join(f'{k}={v!r}' for k, v in shown.items())})"

    def __reduce__(self) -> Any:
        return unpack, (pack(asdict(self)),)


def is_s3_key(key: str) -> bool:
    """Whether a catalog option belongs to the store rather than to the catalog."""
    return key.startswith(PREFIXES) or key == PACKED


def require_s3_key(key: str) -> None:
    """Raise InvalidOption for an unknown option of a store, naming the known ones."""
    if key == PACKED or plain_key(key) in _NAMES:
        return
    near = get_close_matches(plain_key(key), _NAMES, n=1)
    there = ", ".join(f"s3.{name}" for name in _NAMES)
    hint = f"did you mean 's3.{near[0]}'?" if near else f"there are {there}"
    raise InvalidOption(f"unknown option {key!r} of a store; {hint}")


def plain_key(key: str) -> str:
    """`fs.s3a.access-key` → `access.key`."""
    for prefix in PREFIXES:
        key = key.removeprefix(prefix)
    return key.replace("-", ".").lower()


def pack(values: Mapping[str, Any]) -> bytes:
    """The mapping as bytes that show no value in plain text. Not encryption: anyone can unpack them."""
    return base64.b85encode(zlib.compress(json.dumps(dict(values)).encode()))


def unpack(packed: bytes) -> S3Options:
    """The options of `pack`."""
    return S3Options(**unpacked(packed))


def unpacked(packed: bytes) -> dict[str, Any]:
    """The mapping of `pack`."""
    return json.loads(zlib.decompress(base64.b85decode(packed)))


def _require_address(endpoint: str | None) -> None:
    """Raise InvalidOption for an endpoint that is no address of HTTP."""
    try:
        address = urlsplit(endpoint or "http://none")
        whole = address.scheme in ("http", "https") and bool(address.hostname) and (address.port or 1) > 0
    except ValueError:
        whole = False
    if not whole:
        raise InvalidOption(
            f"option 's3.endpoint' is {scrubbed(endpoint or '')!r}; it must be an address such as "
            "'https://s3.example.org:9000'"
        )


def _flag(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        key = next(k for k, field in _NAMES.items() if field == name)
        raise InvalidOption(f"option 's3.{key}' is {text!r}; it must be true or false")
    return text.lower() == "true"
