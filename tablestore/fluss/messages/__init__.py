"""The messages of `fluss.proto` as classes of protobuf, imported when one is first used:
`pb.FetchLogRequest`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tablestore.core.extras import required

__all__ = ["pb"]

if TYPE_CHECKING:
    from tablestore.fluss.messages import fluss_pb2 as pb
else:

    class _Messages:
        """The generated module; its classes are kept as attributes."""

        def __getattr__(self, name: str) -> Any:
            required("google.protobuf", by="a Fluss cluster")
            attribute = getattr(import_module("tablestore.fluss.messages.fluss_pb2"), name)
            setattr(self, name, attribute)
            return attribute

    pb = _Messages()
