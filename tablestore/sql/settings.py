"""Settings of a session: what SET can set, each with its values and what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tablestore.core.errors import InvalidOption, NotFound


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `values` are the words that may be set, any where empty."""

    name: str
    default: str
    text: str
    values: tuple[str, ...] = ()


SETTINGS: Mapping[str, Setting] = MappingProxyType(
    {
        one.name: one
        for one in (
            Setting(
                "execution.runtime-mode",
                "batch",
                "whether a SELECT ends, or follows its tables",
                ("batch", "streaming"),
            ),
            Setting(
                "execution.engine",
                "embedded",
                "who computes a SELECT: DuckDB in this process, or Spark",
                ("embedded", "spark"),
            ),
            Setting(
                "execution.memory-limit",
                "60%",
                "what a query may hold in memory, '2GB' or a share of all; what is more goes to disk",
            ),
        )
    }
)


class Settings:
    """The values that are set; what is not set has its default."""

    def __init__(self) -> None:
        self._set: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        return self._set.get(name, SETTINGS[name].default)

    def set(self, name: str, value: str) -> None:
        """Raises NotFound for a setting that there is not, InvalidOption for a value it does not take."""
        if name not in SETTINGS:
            raise NotFound.among("setting", name, SETTINGS)
        if SETTINGS[name].values and value.lower() not in SETTINGS[name].values:
            raise InvalidOption(f"{name} is {' or '.join(SETTINGS[name].values)}, not {value!r}")
        self._set[name] = value.lower() if SETTINGS[name].values else value

    def reset(self, name: str | None = None) -> None:
        """Back to the default: one, or all."""
        if name is None:
            self._set.clear()
        elif name not in SETTINGS:
            raise NotFound.among("setting", name, SETTINGS)
        else:
            self._set.pop(name, None)

    def rows(self) -> list[tuple[str, str]]:
        """Every setting with its value, sorted."""
        return [(name, self[name]) for name in sorted(SETTINGS)]
