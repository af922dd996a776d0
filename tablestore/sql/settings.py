"""Settings of a session: what SET can set, each with its values and what it does."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tablestore.core.errors import InvalidOption, NotFound, Unsupported
from tablestore.core.options.names import of_new_tables
from tablestore.core.options.rules import require_taken
from tablestore.core.options.table_options import TableOptions
from tablestore.core.options.values import duration_ms, integer
from tablestore.flow.runner import ENGINES
from tablestore.sql.query.time_functions import known_zone


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `values` are the words that may be set, any where empty; `parse` raises ValueError, which
    says what is expected, for a value that cannot be read."""

    name: str
    default: str
    text: str
    values: tuple[str, ...] = ()
    parse: Callable[[str], object] = str


def _times(text: str) -> int:
    times = integer(text)
    if times < 0:
        raise ValueError("a number, 0 or more")
    return times


def _memory(text: str) -> str:
    if not re.fullmatch(r"(\d+(\.\d+)?\s*([KMGT]i?B|B)|([1-9]\d?|100)\s*%)?", text, re.IGNORECASE):
        raise ValueError("a size such as '2GB', or a share of all memory such as '60%'")
    return text


def _multiplier(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 <= factor < math.inf:
        raise ValueError("a number, 1 or more")
    return factor


LOCAL_TIME_ZONE, CHECKPOINTS = "table.local-time-zone", "execution.checkpointing.dir"
TARGET = "execution.target"
UPDATES, IGNORED = "table.optimizer.non-deterministic-update.strategy", "ignore"
_EXPONENTIAL: tuple[tuple[str, str, str, Callable[[str], object]], ...] = (
    ("initial-backoff", "1 s", "before the first restart", duration_ms),
    ("backoff-multiplier", "2.0", "each further wait is so many times as long", _multiplier),
    ("max-backoff", "1 min", "the longest wait", duration_ms),
    (
        "attempts-before-reset-backoff",
        "20",
        "so many restarts without a batch between them, then the job has failed; Flink's has no end",
        _times,
    ),
)
SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        setting.name: setting
        for setting in (
            Setting(
                "execution.runtime-mode",
                "batch",
                "whether a SELECT ends, or follows its tables; streaming makes an INSERT a job",
                ("batch", "streaming"),
            ),
            Setting(
                "execution.engine",
                "embedded",
                "who computes a SELECT: DuckDB in this process, or Spark",
                ("embedded", "spark"),
            ),
            Setting(
                TARGET,
                ENGINES[0],
                "who runs jobs: Spark, or processes of this machine, without Spark and Java; a job goes on "
                "with either",
                ENGINES,
            ),
            Setting(
                "sql-client.execution.result-mode",
                "tableau",
                "taken from scripts of Flink's client; rows are shown in one way here",
                ("table", "changelog", "tableau"),
            ),
            Setting(
                "table.exec.sink.upsert-materialize",
                "auto",
                "taken from scripts of Flink; a table merges rows of one key by itself",
                ("none", "auto", "force"),
            ),
            Setting(
                UPDATES,
                "try_resolve",
                "whether a stream may add up what a lookup join gives to rows that change: refused, or with "
                "ignore done, which is right while nothing changes in the table that is looked up. Flink's "
                "own default is ignore",
                ("try_resolve", IGNORED),
            ),
            Setting(
                LOCAL_TIME_ZONE,
                "UTC",
                "the zone of instants (TIMESTAMP_LTZ) where they are shown or become times: 'Europe/Berlin'",
            ),
            Setting(
                "execution.memory-limit",
                "60%",
                "what a query may hold in memory, '2GB' or a share of all; what is more goes to disk",
                parse=_memory,
            ),
            Setting(
                "pipeline.name",
                "",
                "what the next job is called; a job of that name goes on where it was. Without it a name is "
                "made of the target's",
            ),
            Setting(
                "execution.checkpointing.interval",
                "1 s",
                "a job carries out one batch in that time, at most",
                parse=duration_ms,
            ),
            Setting(
                CHECKPOINTS,
                "",
                "where jobs keep their checkpoints and state; without it below the warehouse, in "
                ".tablestore/jobs",
            ),
            Setting(
                "restart-strategy.type",
                "exponential-delay",
                "how a job is started again that failed because a server, a store or a process was away. "
                "Rows that do not fit and other errors end a job at once",
                ("none", "off", "disable", "fixed-delay", "exponential-delay"),
            ),
            Setting(
                "restart-strategy.fixed-delay.attempts",
                "1",
                "so many restarts without a batch between them, then the job has failed",
                parse=_times,
            ),
            Setting("restart-strategy.fixed-delay.delay", "1 s", "before each restart", parse=duration_ms),
            *(
                Setting(f"restart-strategy.exponential-delay.{name}", default, text, parse=parse)
                for name, default, text, parse in _EXPONENTIAL
            ),
            Setting(
                "table.dml-sync",
                "false",
                "whether an INSERT in streaming mode waits for the end of its job",
                ("true", "false"),
            ),
        )
    }
)


_REFUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "execution.checkpointing.unaligned": ("false", "a batch is committed whole: there are no barriers"),
        "execution.checkpointing.mode": (
            "exactly_once",
            "jobs commit each batch once, there is no other way",
        ),
        "parallelism.default": (
            "",
            "the Spark session of a job says how many tasks run at once, `master`; of a local job as many as "
            "cores",
        ),
    }
)
"""Settings of Flink on how its jobs run: the value that is taken, as jobs here run so, and why no other one
is."""
TABLE_STORAGE = "table-storage."  # with an option of tables behind it: what new tables start from


class Settings:
    """The values that are set; what is not set has its default. `table-storage.<option>` is the default of an
    option of the tables that CREATE TABLE makes."""

    def __init__(self) -> None:
        self._set: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._set[name] if name in self._set else SETTINGS[name].default

    def set(self, name: str, value: str) -> None:
        """Raises NotFound for a setting that there is not, InvalidOption for a value it does not take."""
        if name.startswith(TABLE_STORAGE):
            option = dict([of_new_tables(name, value)])
            require_taken(option)
            TableOptions.parse(option)
            self._set[name] = value
            return
        if name in _REFUSED:
            taken, why = _REFUSED[name]
            if value.lower() != taken:
                raise Unsupported(f"{name} = {value}", why)
            self._set[name] = value
            return
        if name not in SETTINGS:
            raise NotFound.among("setting", name, SETTINGS)
        if SETTINGS[name].values and value.lower() not in SETTINGS[name].values:
            raise InvalidOption(f"{name} is {' or '.join(SETTINGS[name].values)}, not {value!r}")
        try:
            SETTINGS[name].parse(value)
        except ValueError as e:
            raise InvalidOption(f"{name} is {e}, not {value!r}") from None
        if name == LOCAL_TIME_ZONE:
            value = known_zone(value)
        self._set[name] = value.lower() if SETTINGS[name].values else value

    def reset(self, name: str | None = None) -> None:
        """Back to the default: one, or all."""
        if name is None:
            self._set.clear()
        elif name not in {*SETTINGS, *_REFUSED} and not name.startswith(TABLE_STORAGE):
            raise NotFound.among("setting", name, SETTINGS)
        else:
            self._set.pop(name, None)

    def rows(self) -> list[tuple[str, str]]:
        """Every setting with its value, sorted."""
        return [(name, self[name]) for name in sorted({*SETTINGS, *self._set})]

    def table_defaults(self) -> dict[str, str]:
        """The options that new tables start from."""
        return dict(of_new_tables(k, v) for k, v in self._set.items() if k.startswith(TABLE_STORAGE))
