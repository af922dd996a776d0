"""Kinds of answers to a task: what is accepted, what the mismatch is, how the answer is written down.

Each kind is a frozen value with the engine's own answer in it. `problem(submitted)` is None for a right
answer, else a sentence that says how far off it is and gives nothing away. Comparison is lenient where that
is fair: order, case, spelling of a run, number types. Pure. Called by `TaskJudge`; `of` turns plain values
into kinds.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from widgets.task.model import file_names, run_names

SHOWN_ROWS = 6


class Answer(Protocol):
    """What a task is answered by."""

    @property
    def own(self) -> Any:
        """The engine's own answer, in a form that `problem` accepts."""
        ...

    @property
    def form(self) -> str:
        """What an answer looks like: `a whole number`."""
        ...

    def problem(self, submitted: Any) -> str | None:
        """None if `given` is right, else what is wrong with it."""
        ...

    def shown(self) -> str:
        """The engine's own answer as text."""
        ...


@dataclass(frozen=True, slots=True)
class Number:
    """A number, right within `tolerance` (a share of it with `relative`)."""

    own: float
    tolerance: float = 0.0
    relative: bool = False
    unit: str = ""

    @property
    def form(self) -> str:
        """A whole number, or one with some slack."""
        if self.tolerance == 0:
            return "a whole number" if float(self.own).is_integer() else "a number"
        slack = f"{100 * self.tolerance:g} % of it" if self.relative else f"{self.tolerance:g} {self.unit}"
        return f"a number, right within {slack.strip()}"

    def problem(self, submitted: Any) -> str | None:
        """Too low, too high, or no number at all."""
        value = _as_number(submitted)
        if value is None:
            return f"This wants {self.form}, not {_short(submitted)}."
        slack = self.tolerance * abs(self.own) if self.relative else self.tolerance
        if abs(value - self.own) <= slack + 1e-9:
            return None
        return f"{_short(submitted)} is too {'low' if value < self.own else 'high'}."

    def shown(self) -> str:
        """The number with its unit."""
        number = f"{self.own:,.0f}" if float(self.own).is_integer() else f"{self.own:,.4g}"
        return f"{number} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several: answered by its key, or by its words."""

    own: str
    options: Mapping[str, str]

    @property
    def form(self) -> str:
        """The keys."""
        return "one of " + ", ".join(f'"{key}"' for key in self.options)

    def problem(self, submitted: Any) -> str | None:
        """Not among the choices, or not the right one."""
        wanted = {_plain(key): key for key in self.options}
        wanted |= {_plain(words): key for key, words in self.options.items() if words}
        key = wanted.get(_plain(submitted))
        if key is None:
            return f"This wants {self.form}, not {_short(submitted)}."
        return None if key == self.own else f'It is not "{key}".'

    def shown(self) -> str:
        """The key and its words."""
        words = self.options[self.own]
        return f"{self.own}: {words}" if words else self.own


@dataclass(frozen=True, slots=True)
class Members:
    """A set of things; each may be spelt in several ways. The first spelling is how it is shown."""

    spellings: tuple[tuple[str, ...], ...]
    noun: str = "run"

    @property
    def own(self) -> list[str]:
        """The first spelling of each."""
        return [names[0] for names in self.spellings]

    @property
    def form(self) -> str:
        """How members are written."""
        return f"a list of {self.noun}s"

    def problem(self, submitted: Any) -> str | None:
        """How many are right, too many, missing."""
        items = _as_items(submitted)
        if items is None:
            return f"This wants {self.form}, not {_short(submitted)}."
        named = {self._member(item) for item in items}
        right, wrong = named - {None}, [item for item in items if self._member(item) is None]
        missing = len(self.spellings) - len(right)
        if not wrong and not missing:
            return None
        parts = [f"{len(right)} right"]
        parts += [f"{len(wrong)} too many"] if wrong else []
        parts += [f"{missing} missing"] if missing else []
        return ", ".join(parts) + "."

    def _member(self, item: str) -> int | None:
        for place, names in enumerate(self.spellings):
            spelled = [_plain(name) for name in names]
            if _plain(item) in spelled or any(len(item) >= 9 and k.startswith(_plain(item)) for k in spelled):
                return place
        return None

    def plain(self, submitted: Any) -> list[str]:
        """What was submitted by first spellings, as a click gives it; what is no member as it is."""
        items = _as_items(submitted) or []
        named = [(self._member(item), item) for item in items]
        return [item if place is None else self.spellings[place][0] for place, item in named]

    def shown(self) -> str:
        """The members in the order given."""
        return ", ".join(self.own) or f"no {self.noun}"


@dataclass(frozen=True, slots=True)
class Order:
    """Things in an order; `words` explains each, in the right order."""

    words: Mapping[str, str]

    @property
    def own(self) -> list[str]:
        """The names in order."""
        return list(self.words)

    @property
    def form(self) -> str:
        """A list of all names."""
        return f"a list of the {len(self.words)} names in order"

    def problem(self, submitted: Any) -> str | None:
        """How many stand where they belong."""
        items = _as_items(submitted)
        if items is None or Counter(items) != Counter(self.own):
            return f"This wants {self.form}, not {_short(submitted)}."
        right = [item for item, other in zip(items, self.own, strict=True) if item == other]
        named = f": {', '.join(right)}" if right else ""
        whole = f"{len(right)} of {len(self.own)} stand where they belong{named}."
        return None if len(right) == len(self.own) else whole

    def shown(self) -> str:
        """The names with arrows."""
        return " → ".join(self.own)


@dataclass(frozen=True, slots=True)
class Each:
    """One spot of each group of a picture, as ids; `said` is how the engine's answer reads."""

    own: tuple[str, ...]
    said: str = ""

    @property
    def form(self) -> str:
        """A list of ids."""
        return f"a list of {len(self.own)} cells"

    def problem(self, submitted: Any) -> str | None:
        """How many are right."""
        items = _as_items(submitted)
        if items is None:
            return f"This wants {self.form}, not {_short(submitted)}."
        right = len(set(items) & set(self.own))
        if set(items) == set(self.own):
            return None
        return f"{right} of {len(self.own)} are right." if len(self.own) > 1 else "Not this one."

    def shown(self) -> str:
        """The answer in words."""
        return self.said or ", ".join(self.own)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in any order; columns in any order."""

    own: pa.Table

    @property
    def form(self) -> str:
        """The columns that are wanted."""
        return f"rows with the columns {', '.join(self.own.column_names)} (Arrow, pandas, list of dicts)"

    def problem(self, submitted: Any) -> str | None:
        """Another number of rows, other columns, other values."""
        table = as_table(submitted)
        if table is None:
            return f"This wants {self.form}, not {_short(submitted)}."
        if absent := [name for name in self.own.column_names if name not in table.column_names]:
            return f"The column {absent[0]} is missing."
        names = self.own.column_names
        mine, theirs = _counted(self.own, names), _counted(table, names)
        if mine == theirs:
            return None
        if table.num_rows != self.own.num_rows:
            few = "few" if table.num_rows < self.own.num_rows else "many"
            return f"{table.num_rows:,} rows are too {few}."
        same = sum((mine & theirs).values())
        return f"{same:,} of {self.own.num_rows:,} rows are right."

    def shown(self) -> str:
        """The first rows as tuples."""
        rows = [str(tuple(row.values())) for row in self.own.slice(0, SHOWN_ROWS).to_pylist()]
        more = self.own.num_rows - len(rows)
        return ", ".join(rows) + (f" and {more:,} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Holds:
    """Anything for which `test` is true; a sentence it returns says what is wrong. `own` is one example."""

    test: Callable[[Any], bool | str]
    own: Any
    form: str = "a value"

    def problem(self, submitted: Any) -> str | None:
        """What the test says."""
        outcome = self.test(submitted)
        if isinstance(outcome, str):
            return outcome
        return None if outcome else f"{_short(submitted)} does not do it."

    def shown(self) -> str:
        """The example."""
        return f"for example {_short(self.own)}"


def of(value: Any, *, options: Mapping[str, str] | Sequence[str] | None = None) -> Answer:
    """The kind that fits a plain value: a number, a text among `options`, a set, a table of rows."""
    if isinstance(value, Number | Choice | Members | Order | Each | Rows | Holds):
        return value
    if options is not None and not isinstance(value, set | frozenset | list | tuple):
        named = dict(options) if isinstance(options, Mapping) else dict.fromkeys(options, "")
        if value not in named:
            raise ValueError(f"the answer {value!r} is not among the options {', '.join(named)}")
        return Choice(value, named)
    if isinstance(value, bool):
        return Choice("yes" if value else "no", {"yes": "", "no": ""})
    if isinstance(value, int | float):
        return Number(value)
    if isinstance(value, str):
        return Members(((value,),), noun="name")
    if isinstance(value, pa.Table):
        return Rows(value)
    if isinstance(value, set | frozenset | list | tuple):
        if value and all(isinstance(v, Mapping) for v in value):
            return Rows(pa.Table.from_pylist(list(value)))
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return Members(tuple((str(v),) for v in items), noun="name")
    raise ValueError(f"no kind of answer fits {type(value).__name__}; give one of those of this module")


def runs(levels: pa.Table) -> Members:
    """The sorted runs of rows of `table.inspect.levels()`: at level 0 each file is one, from level 1 on each
    level.

    A run of level 0 is spelt by its snapshot (`#4`, 4, `L0 #4`) or by its file, one of an older level by that
    (`L5`) or by any of its files.
    """
    spelt = []
    for name, files in run_names(levels).items():
        others = [name.replace("L", "level ")] if name.startswith("L") else []
        others += [name[1:], f"L0 {name}"] if name.startswith("#") else []
        spelt.append((name, *others, *files))
    return Members(tuple(spelt))


def files(levels: pa.Table, chosen: Iterable[str]) -> Members:
    """The files with the names `chosen`, of rows of `table.inspect.levels()`.

    A file is spelt as in the picture (`#4`, `L5.2`) or by its own name.
    """
    wanted = set(chosen)
    named = file_names(levels).items()
    return Members(tuple((name, file) for name, file in named if file in wanted), noun="file")


def as_table(submitted: Any) -> pa.Table | None:
    """Rows as an Arrow table; None for what is none."""
    if isinstance(submitted, pa.Table):
        return submitted
    if isinstance(submitted, pa.RecordBatch):
        return pa.Table.from_batches([submitted])
    if isinstance(submitted, Mapping):
        submitted = [submitted]
    if isinstance(submitted, list | tuple):
        rows = list(submitted)
        return pa.Table.from_pylist(rows) if all(isinstance(row, Mapping) for row in rows) else None
    if hasattr(submitted, "to_arrow"):
        return submitted.to_arrow()
    try:
        return pa.table(submitted)
    except (TypeError, ValueError):
        return None


def _counted(table: pa.Table, names: list[str]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(_loose(row[name]) for name in names) for row in table.select(names).to_pylist())


def _loose(value: Any) -> Any:
    """A value so that equal ones of different types are equal; NaN is null, as pandas writes it."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 9)
    return value


def _as_number(submitted: Any) -> float | None:
    if isinstance(submitted, bool):
        return None
    if isinstance(submitted, str):
        text = submitted.replace(",", "").replace(" ", "").replace("−", "-")
        return float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else None
    try:
        value = float(submitted)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _as_items(submitted: Any) -> list[str] | None:
    """Members as texts: from a list, a set, an Arrow column, or one text with commas."""
    if isinstance(submitted, str):
        return [part.strip() for part in submitted.split(",") if part.strip()]
    if isinstance(submitted, int) and not isinstance(submitted, bool):
        return [str(submitted)]
    if hasattr(submitted, "to_pylist"):
        submitted = submitted.to_pylist()
    if isinstance(submitted, Iterable) and not isinstance(submitted, Mapping):
        return list(dict.fromkeys(str(item) for item in submitted))
    return None


def _plain(submitted: Any) -> str:
    """Lower case, one space at most between words; true is yes."""
    if isinstance(submitted, bool):
        return "yes" if submitted else "no"
    return " ".join(str(submitted).lower().strip("\"' ").split())


def _short(submitted: Any) -> str:
    text = submitted if isinstance(submitted, str) else repr(submitted)
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:59] + "…"
