"""Aggregate functions by name: a column and its `fields.<column>.…` options → the aggregator of the column
(FORMAT.md 11.6).

All errors in these options are raised here, when a table is created: unknown names, types that a function
does not take, options that exclude each other. Pure. Used by the engines and by `validate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from tablestore.core.errors import InvalidOption
from tablestore.format.types.arrow_types import MAX_LENGTH, DataField, DataType
from tablestore.lsm.merge.aggregators import sketches
from tablestore.lsm.merge.aggregators.choose import (
    FirstNonNullValue,
    FirstValue,
    LastNonNullValue,
    LastValue,
    MinMax,
)
from tablestore.lsm.merge.aggregators.lists import Collect, ListAgg, MergeMap, MergeMapWithKeyTime
from tablestore.lsm.merge.aggregators.nested_update import NestedPartialUpdate, NestedUpdate
from tablestore.lsm.merge.aggregators.numbers import Product, Sum
from tablestore.lsm.merge.walk import Failures, Walk

DEFAULT_FUNCTION = "fields.default-aggregate-function"
LAST_NON_NULL = "last_non_null_value"
_NUMERIC = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")
_RETRACTABLE = ("sum", "product", "last_value", LAST_NON_NULL, "collect", "merge_map", "nested_update")


@runtime_checkable
class ChoosingAggregator(Protocol):
    """An aggregator whose result is the value of one of the rows."""

    def choose(self, column: pa.Array, t: DataType, walk: Walk) -> np.ndarray: ...


class FoldingAggregator(Protocol):
    """An aggregator that makes new values."""

    def fold(self, name: str, column: pa.Array, t: DataType, walk: Walk, failures: Failures) -> pa.Array: ...


@dataclass(frozen=True, slots=True)
class Aggregator:
    """The function of one column."""

    field: DataField
    name: str
    body: ChoosingAggregator | FoldingAggregator
    ignores_retracts: bool = False

    @property
    def takes_retracts(self) -> bool:
        """Whether a −U or −D can be merged."""
        return self.ignores_retracts or self.name in _RETRACTABLE

    @property
    def may_refuse(self) -> bool:
        """Whether rows may fail to merge; aggregators that choose a row and take retracts never fail."""
        return not (self.takes_retracts and isinstance(self.body, ChoosingAggregator))

    @property
    def hidden_null(self) -> str | None:
        """What happens to the column where an update to NULL is not seen: −U of the old value and +U of NULL
        leave 0 of a sum, and of all others but `last_value` the old value. None where it is seen."""
        if not self.takes_retracts or self.name == "last_value":
            return None
        if self.name == "sum" and not self.ignores_retracts:
            return f"gives 0 for {self.field.name!r}"
        return f"keeps the old value of {self.field.name!r}"

    @property
    def follows_updates(self) -> bool:
        """Whether −U of the old row and +U of the new one, folded with each other before they meet the stored
        row as rows of one commit are, leave the new value: of a sum, and where the last value counts."""
        return self.name in ("last_value", LAST_NON_NULL) or (
            self.name == "sum" and not self.ignores_retracts
        )

    @property
    def subtracts(self) -> bool:
        """Whether a −U or −D takes away just what its own row brought, whichever rows came between: of a sum,
        and where they are ignored on purpose."""
        return self.name == "sum" or self.ignores_retracts

    @property
    def remedy(self) -> str:
        """The error text for a refused retract."""
        return (
            f"aggregate function {self.name!r} of column {self.field.name!r} takes no -U or -D rows; "
            f"'fields.{self.field.name}.ignore-retract' = 'true' would leave them out"
        )


class FieldOptions:
    """`fields.<column>.<name>` of one column."""

    def __init__(self, options: Mapping[str, str], column: str) -> None:
        self._options, self.column = options, column

    def key(self, name: str) -> str:
        """The key as it is stored."""
        return f"fields.{self.column}.{name}"

    def text(self, name: str) -> str | None:
        """Its value."""
        return self._options.get(self.key(name))

    def names(self, name: str) -> tuple[str, ...]:
        """A list of field names."""
        return tuple(part.strip() for part in (self.text(name) or "").split(",") if part.strip())

    def flag(self, name: str) -> bool:
        """true or false; absent is false."""
        text = (self.text(name) or "false").strip().lower()
        if text not in ("true", "false"):
            raise InvalidOption(f"option {self.key(name)!r} is {text!r}; it must be true or false")
        return text == "true"

    def count(self, name: str) -> int:
        """A whole number; absent is no limit."""
        text = self.text(name)
        try:
            return 2**31 - 1 if text is None else int(text)
        except ValueError:
            raise InvalidOption(f"option {self.key(name)!r} is {text!r}; it must be a whole number") from None


def function_name(options: Mapping[str, str], column: str) -> str | None:
    """The name of a column's function, its own or the default one; None if there is none."""
    return options.get(f"fields.{column}.aggregate-function") or options.get(DEFAULT_FUNCTION)


def aggregator(field: DataField, name: str, options: Mapping[str, str]) -> Aggregator:
    """The aggregator of that name for a column; raises InvalidOption that names what is wrong."""
    make = _MAKERS.get(name)
    if make is None:
        near = get_close_matches(name, _MAKERS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(_MAKERS))}"
        raise InvalidOption(f"aggregate function {name!r} of column {field.name!r} is unknown; {hint}")
    own = FieldOptions(options, field.name)
    ignores = own.flag("ignore-retract")
    if ignores and options.get("aggregation.remove-record-on-delete", "").lower() == "true":
        raise InvalidOption(
            f"'aggregation.remove-record-on-delete' and {own.key('ignore-retract')!r} exclude each other"
        )
    body = make(field, own)
    if ignores and isinstance(body, Collect):
        body = replace(body, late_first=True)
    return Aggregator(field, name, body, ignores)


def _require(field: DataField, name: str, fits: bool, wanted: str) -> None:
    if not fits:
        raise InvalidOption(
            f"aggregate function {name!r} is for {wanted}; column {field.name!r} is {field.type}"
        )


def _of_any(body: ChoosingAggregator) -> Callable[[DataField, FieldOptions], ChoosingAggregator]:
    return lambda field, options: body


def _numeric(name: str, body: FoldingAggregator) -> Callable[[DataField, FieldOptions], FoldingAggregator]:
    def make(field: DataField, options: FieldOptions) -> FoldingAggregator:
        _require(field, name, field.type.root in _NUMERIC, "numbers")
        return body

    return make


def _extreme(
    name: str, *, greatest: bool, boolean: bool
) -> Callable[[DataField, FieldOptions], ChoosingAggregator]:
    def make(field: DataField, options: FieldOptions) -> ChoosingAggregator:
        fits = field.type.root == "BOOLEAN" if boolean else field.type.is_scalar
        _require(field, name, fits, "BOOLEAN" if boolean else "types that can be compared")
        return MinMax(greatest)

    return make


def _listagg(field: DataField, options: FieldOptions) -> FoldingAggregator:
    t = field.type
    _require(field, "listagg", t.root == "VARCHAR" and t.precision == MAX_LENGTH, "STRING")
    delimiter, distinct = options.text("list-agg-delimiter"), options.flag("distinct")
    if delimiter == "" and distinct:
        raise InvalidOption(
            f"{options.key('list-agg-delimiter')!r} is empty: texts that are joined without one cannot "
            f"be split again, as {options.key('distinct')!r} asks"
        )
    return ListAgg("," if delimiter is None else delimiter, distinct)


def _collect(field: DataField, options: FieldOptions) -> FoldingAggregator:
    _require(field, "collect", field.type.root == "ARRAY", "ARRAY")
    return Collect(options.flag("distinct"))


def _merge_map(field: DataField, options: FieldOptions) -> FoldingAggregator:
    _require(field, "merge_map", field.type.root == "MAP", "MAP")
    return MergeMap()


def _merge_map_with_keytime(field: DataField, options: FieldOptions) -> FoldingAggregator:
    t = field.type
    fits = t.root == "MAP" and t.children[1].type.root == "ROW" and len(t.children[1].type.children) > 1
    _require(field, "merge_map_with_keytime", fits, "MAP of ROW with two fields or more")
    names = [f.name for f in t.children[1].type.children]
    time = options.text("ts-field")
    if time is not None and time not in names:
        raise InvalidOption(
            f"option {options.key('ts-field')!r} names {time!r}; there are {', '.join(names)}"
        )
    at = len(names) - 1 if time is None else names.index(time)
    time_field = t.children[1].type.children[at]
    _require(time_field, "merge_map_with_keytime", time_field.type.is_string, "a time kept as STRING")
    return MergeMapWithKeyTime(at)


def _nested_fields(field: DataField, options: FieldOptions, key: str) -> tuple[int, ...]:
    names = [f.name for f in field.type.element.children]
    for name in options.names(key):
        if name not in names:
            raise InvalidOption(f"option {options.key(key)!r} names {name!r}; there are {', '.join(names)}")
    return tuple(names.index(name) for name in options.names(key))


def _null_keys(options: FieldOptions) -> str:
    text = (options.text("nested-key-null-strategy") or "merge").lower()
    if text not in ("merge", "ignore", "error"):
        key = options.key("nested-key-null-strategy")
        raise InvalidOption(f"option {key!r} is {text!r}; it must be merge, ignore or error")
    return text


def _is_table(field: DataField) -> bool:
    return field.type.root == "ARRAY" and field.type.element.root == "ROW"


def _nested_update(field: DataField, options: FieldOptions) -> FoldingAggregator:
    _require(field, "nested_update", _is_table(field), "ARRAY of ROW")
    key = _nested_fields(field, options, "nested-key")
    sequence = _nested_fields(field, options, "nested-sequence-field")
    for other in ("nested-key-null-strategy", "nested-sequence-field"):
        if options.text(other) and not key:
            raise InvalidOption(f"option {options.key(other)!r} needs {options.key('nested-key')!r}")
    for at in sequence:
        compared = field.type.element.children[at]
        _require(compared, "nested-sequence-field", compared.type.is_scalar, "types that can be compared")
    return NestedUpdate(key, sequence, options.count("count-limit"), _null_keys(options))


def _nested_partial_update(field: DataField, options: FieldOptions) -> FoldingAggregator:
    _require(field, "nested_partial_update", _is_table(field), "ARRAY of ROW")
    key = _nested_fields(field, options, "nested-key")
    if not key:
        raise InvalidOption(f"'nested_partial_update' needs the option {options.key('nested-key')!r}")
    return NestedPartialUpdate(key, _null_keys(options))


def _bytes(
    name: str, union: sketches.Union, *, library: bool = True
) -> Callable[[DataField, FieldOptions], FoldingAggregator]:
    def make(field: DataField, options: FieldOptions) -> FoldingAggregator:
        _require(field, name, field.type.root == "VARBINARY", "VARBINARY")
        if library:
            sketches.require_library(name)
        return sketches.BytesUnion(union)

    return make


_MAKERS: dict[str, Callable[[DataField, FieldOptions], ChoosingAggregator | FoldingAggregator]] = {
    "sum": _numeric("sum", Sum()),
    "product": _numeric("product", Product()),
    "max": _extreme("max", greatest=True, boolean=False),
    "min": _extreme("min", greatest=False, boolean=False),
    "bool_or": _extreme("bool_or", greatest=True, boolean=True),
    "bool_and": _extreme("bool_and", greatest=False, boolean=True),
    "last_value": _of_any(LastValue()),
    LAST_NON_NULL: _of_any(LastNonNullValue()),
    "first_value": _of_any(FirstValue()),
    "first_non_null_value": _of_any(FirstNonNullValue()),
    "first_not_null_value": _of_any(FirstNonNullValue()),
    "primary-key": _of_any(LastValue()),
    "listagg": _listagg,
    "collect": _collect,
    "merge_map": _merge_map,
    "merge_map_with_keytime": _merge_map_with_keytime,
    "nested_update": _nested_update,
    "nested_partial_update": _nested_partial_update,
    "rbm32": _bytes("rbm32", sketches.rbm32, library=False),
    "rbm64": _bytes("rbm64", sketches.rbm64, library=False),
    "theta_sketch": _bytes("theta_sketch", sketches.theta),
    "hll_sketch": _bytes("hll_sketch", sketches.hll),
}
