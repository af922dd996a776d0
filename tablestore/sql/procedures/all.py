"""Every procedure by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tablestore.sql.procedures import compacting, diagnosis, refs, retention
from tablestore.sql.procedures.procedure import Procedure

PROCEDURES: Mapping[str, Procedure] = MappingProxyType(
    {
        procedure.name: procedure
        for procedure in (
            *compacting.PROCEDURES,
            *refs.PROCEDURES,
            *retention.PROCEDURES,
            *diagnosis.PROCEDURES,
        )
    }
)
