"""The calls that mend a finding, as data: what `Finding.remedy` shows and `Table.mend` carries out.

A call names a verb of `Table` with plain values, so no text is evaluated to carry it out, and the text that
is shown says the same. Pure. Made by the rules, with `words.py`.
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
    "log.repair",
    "look",
]
_ALTERS: tuple[Verb, ...] = ("set_options", "reset_options")


@dataclass(frozen=True, slots=True)
class MendingCall:
    """`table.<verb>(*arguments, **keywords)`, with `options` for this use only. The argument of "look" is
    Python that shows what to decide by."""

    verb: Verb
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def alters(self) -> bool:
        """Whether it changes the schema, so that later calls need the altered table."""
        return self.verb in _ALTERS

    @property
    def step(self) -> str:
        """What is called on the table: `compact(full=True)`, `alter(ts.set_options({…}))`."""
        values = [repr(v) for v in self.arguments] + [f"{k}={v!r}" for k, v in self.keywords.items()]
        call = f"{self.verb}({', '.join(values)})"
        if self.alters:
            return f"alter(ts.{call})"
        return f"with_options({dict(self.options)!r}).{call}" if self.options else call


def python(calls: Sequence[MendingCall]) -> str:
    """The calls as one Python expression over `table` and `ts`."""
    if calls[0].verb == "look":
        return str(calls[0].arguments[0])
    if all(c.alters for c in calls[:-1]):
        return ".".join(["table", *(c.step for c in calls)])
    return f"({', '.join(f'table.{c.step}' for c in calls)})"


def look(text: str) -> MendingCall:
    """A call that changes nothing: Python that shows what to decide by."""
    return MendingCall("look", (text,))
