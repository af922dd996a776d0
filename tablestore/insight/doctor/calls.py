"""The calls that the doctor prescribes, as data: what `Finding.remedy` shows and `Table.mend` carries out.

A call names a verb of `Table` with plain values, so carrying it out needs no text to be evaluated, and the
text that is shown cannot say something else. Pure. Made by the rules, by way of `words.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verb = Literal[
    "compact",
    "set_options",
    "reset_options",
    "rescale",
    "expire_snapshots",
    "compact_manifests",
    "remove_orphans",
    "consumers.delete",
    "tags.delete",
    "look",
]
_ALTERS: tuple[Verb, ...] = ("set_options", "reset_options")


@dataclass(frozen=True, slots=True)
class Call:
    """`table.<verb>(*given, **named)`; `under`: options for this use only. "look" holds Python to
    decide by."""

    verb: Verb
    given: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    under: Mapping[str, str] = field(default_factory=dict)

    @property
    def alters(self) -> bool:
        """Whether it changes the schema, so that later calls need the altered table."""
        return self.verb in _ALTERS

    @property
    def step(self) -> str:
        """What is called on the table: `compact(full=True)`, `alter(ts.set_options({…}))`."""
        values = [repr(v) for v in self.given] + [f"{k}={v!r}" for k, v in self.named.items()]
        call = f"{self.verb}({', '.join(values)})"
        if self.alters:
            return f"alter(ts.{call})"
        return f"with_options({dict(self.under)!r}).{call}" if self.under else call


def python(calls: Sequence[Call]) -> str:
    """The calls as one Python expression over `table` and `ts`."""
    if calls[0].verb == "look":
        return str(calls[0].given[0])
    if all(c.alters for c in calls[:-1]):
        return ".".join(["table", *(c.step for c in calls)])
    return f"({', '.join(f'table.{c.step}' for c in calls)})"


def look(text: str) -> Call:
    """Nothing mends it by itself: Python that gives what to decide by."""
    return Call("look", (text,))
