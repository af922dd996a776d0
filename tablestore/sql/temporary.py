"""Temporary tables and views: what lives as long as the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tablestore.catalog.catalog import CatalogView
from tablestore.core.options.environment import ENVIRONMENT
from tablestore.core.options.secrets import HIDDEN, hidden
from tablestore.format.computed_columns import ComputedColumn, Watermark, in_order
from tablestore.format.types.data_type import DataField


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """A column with what its connector knows of a record beside the row, by the connector's `key`. A
    `virtual` one is only read."""

    name: str
    key: str
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class TemporaryTable:
    """A table of CREATE TEMPORARY TABLE. `columns` are those that the connector gives, some as `metadata`;
    `computed` are made of them. `options` are as they were typed, `connector` among them, and may hold
    secrets."""

    columns: tuple[DataField, ...]
    primary_key: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    watermark: Watermark | None = None
    computed: tuple[ComputedColumn, ...] = ()
    partition_by: tuple[str, ...] = ()
    comment: str | None = None
    metadata: tuple[RecordMetadata, ...] = ()

    @property
    def connector(self) -> str:
        """Which connector reads and writes it."""
        return self.options["connector"]

    @property
    def names(self) -> list[str]:
        """All columns in order, computed ones too."""
        return in_order([f.name for f in self.columns], self.computed)

    @property
    def shown_options(self) -> dict[str, str]:
        """The options with secrets, and what comes from the environment, as `***`."""
        shown = hidden(self.options)
        return {k: HIDDEN if ENVIRONMENT in self.options[k] else v for k, v in shown.items()}

    def with_options(self, options: Mapping[str, str]) -> TemporaryTable:
        """The same table with these options, too."""
        return replace(self, options={**self.options, **options}) if options else self


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A named query: its text, and the names of its columns where the statement gives them. `temporary`: it
    lives in the session, not in a catalog."""

    query: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    column_comments: tuple[str | None, ...] = ()
    temporary: bool = True

    @staticmethod
    def of_catalog(view: CatalogView) -> NamedQuery:
        """A view that a catalog keeps."""
        names = tuple(f.name for f in view.columns)
        comments = tuple(f.description for f in view.columns)
        return NamedQuery(view.query, names, view.comment, comments, temporary=False)
