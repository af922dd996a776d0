"""Findings: what `inspect.doctor()` says of a table, in its own words, with the call that mends each.

Traits: `snapshot` (of a linked timeline; the doctor looks at that one). Nothing is changed and no data file
is opened; the doctor reads manifests only.
"""

from typing import Any, Protocol, Self

import pyarrow as pa

from widgets import _static
from widgets._svg import Figure
from widgets._view import View, module, title_of
from widgets.findings.figure import findings_figure
from widgets.findings.model import FindingsModel, findings_model


class Examined(Protocol):
    """A table whose `inspect` has a doctor."""

    @property
    def inspect(self) -> Any:
        """Its metadata: `doctor(snapshot=…)`."""
        ...


class Findings(View):
    """The doctor's findings of a table."""

    _esm = module("findings/view.js", "renderFindings")

    def __init__(self, table: Examined, *, snapshot: int | None = None, **kwargs: object) -> None:
        self._table, self._title = table, title_of(table)
        self._model = FindingsModel(self._title, snapshot, "not looked yet", (), 0, ())
        self._found = pa.table({})
        self._said = ""
        super().__init__(snapshot=snapshot, **kwargs)
        self.refresh()
        self.observe(lambda _change: self.refresh(), "snapshot")

    @property
    def code(self) -> str:
        """The call that gives the findings."""
        at = "" if self.snapshot is None else f"snapshot={self.snapshot}"
        return f"table.inspect.doctor({at})"

    @property
    def model(self) -> FindingsModel:
        """The findings as values."""
        return self._model

    def refresh(self) -> Self:
        """Look again."""
        self.guarded(
            self._load, what="The doctor could not look.", next_step="Check the table: table.check()"
        )
        return self

    def _load(self) -> None:
        diagnosis = self._table.inspect.doctor(self.snapshot)
        self._model = findings_model(diagnosis, table=self._title)
        self._found, self._said = diagnosis.to_arrow(), diagnosis.text
        self.redraw()

    def figure(self, *, width: float) -> Figure:
        """The findings."""
        return findings_figure(self._model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and summary."""
        at = "" if self._model.snapshot is None else f" at #{self._model.snapshot}"
        return {"title": f"Doctor{at}", "subtitle": self._model.summary}

    def text(self) -> str:
        """What the doctor said, whole."""
        return self._said or self._model.summary

    def data(self) -> pa.Table:
        """One row a finding."""
        return self._found

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The findings as they stand."""
        frames = {str(width): _static.frame(self.figure(width=width)) for width in widths}
        words = {str(width): self.words(width=width) for width in widths}
        spec = {"kind": "findings", "reply": "plain", "widths": sorted(widths, reverse=True)}
        return spec | {"frames": frames, "words": words, "state": {"width": widths[0], "frame": {}}}
