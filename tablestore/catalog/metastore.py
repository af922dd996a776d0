"""A Hive metastore over Thrift: short sessions, with its errors as errors of this engine.

The client is hmsclient's generated code: it needs only thrift and click, while the same stubs in pyiceberg
need all of pyiceberg. Plain transport: no SASL. A session is one connection, so nothing is shared between
threads or processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tablestore.core.errors import (
    AlreadyExists,
    InvalidOption,
    InvalidRequest,
    NotFound,
    Unavailable,
)
from tablestore.core.extras import required
from tablestore.core.options.secrets import scrubbed

_TIMEOUT_MS = 60_000
_STUBS = "hmsclient.genthrift.hive_metastore"


@dataclass(frozen=True, slots=True)
class Metastore:
    """The servers of one metastore: the first that answers is used."""

    servers: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, uri: str) -> Metastore:
        """`thrift://host:9083[,thrift://…]`. Raises InvalidOption."""
        servers = []
        for address in uri.split(","):
            try:
                parts = urlsplit(address.strip())
                host, port = parts.hostname, parts.port or 9083
            except ValueError:
                host, port = None, 0
            if host is None or parts.scheme != "thrift":
                shown = scrubbed(uri)
                raise InvalidOption(
                    f"option 'uri' of a hive metastore is {shown!r}; write thrift://host:9083"
                )
            servers.append((host, port))
        return cls(tuple(servers))

    @contextlib.contextmanager
    def session(self) -> Iterator[Any]:
        """A Thrift client; its errors become NotFound, AlreadyExists, InvalidRequest or Unavailable."""
        t = types()
        transport, client = self._connect()
        try:
            yield client
        except (t.NoSuchObjectException, t.UnknownDBException, t.UnknownTableException) as e:
            raise NotFound(f"not in the metastore: {e.message}") from e
        except t.AlreadyExistsException as e:
            raise AlreadyExists(str(e.message)) from e
        except (t.InvalidObjectException, t.InvalidOperationException) as e:
            raise InvalidRequest(f"the metastore refuses: {e.message}") from e
        except (t.MetaException, _thrift().Thrift.TException, OSError) as e:
            raise Unavailable(f"{self}: {getattr(e, 'message', None) or e}") from e
        finally:
            transport.close()

    def _connect(self) -> tuple[Any, Any]:
        thrift, failed = _thrift(), []
        for host, port in self.servers:
            socket = thrift.transport.TSocket.TSocket(host, port)
            socket.setTimeout(_TIMEOUT_MS)
            transport = thrift.transport.TTransport.TBufferedTransport(socket)
            try:
                transport.open()
            except thrift.transport.TTransport.TTransportException as e:
                failed.append(str(e))
                continue
            protocol = thrift.protocol.TBinaryProtocol.TBinaryProtocol(transport)
            return transport, _stubs().ThriftHiveMetastore.Client(protocol)
        raise Unavailable(f"{self}: {'; '.join(failed)}")

    def __str__(self) -> str:
        return ",".join(f"thrift://{host}:{port}" for host, port in self.servers)


def types() -> Any:
    """The module of the metastore's Thrift types."""
    return _stubs().ttypes


def _stubs() -> Any:
    for stub in ("ThriftHiveMetastore", "ttypes"):
        required(f"{_STUBS}.{stub}", by="metastore hive")
    return required(_STUBS, by="metastore hive")


def _thrift() -> Any:
    for part in ("Thrift", "protocol.TBinaryProtocol", "transport.TSocket", "transport.TTransport"):
        required(f"thrift.{part}", by="metastore hive")
    return required("thrift", by="metastore hive")
