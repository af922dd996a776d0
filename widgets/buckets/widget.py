"""BucketAdvisor: `ts.advise_buckets` as a picture; a press on a number shows what its buckets hold.

Trait: `buckets`, the number that is shown (the proposed one at first). Rows are counted once, when the view
is made; `refresh` counts again.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.buckets.figure import advice_figure
from widgets.buckets.model import Advice, AdviceModel, advice_model, text_form
from widgets.chart.axes import Asked
from widgets.kit import static
from widgets.kit.svg import Figure
from widgets.kit.view import View, module


class BucketAdvisor(View):
    """Numbers of buckets tried over real keys: sizes, skew, and what each bucket would hold.

    `data` is a table, anything Arrow-like, or advice of `ts.advise_buckets`; what that function takes beside
    the data goes by keyword. `width` is in pixels. The trait `buckets` is the number shown, first the best.

    >>> widgets.BucketAdvisor(orders).buckets
    1
    """

    links = ()
    chart = Asked(x="bucket", y="rows", kind="bars")
    _esm = module("buckets")
    unreadable = ("The rows could not be counted.", "Check the data.")
    buckets = traitlets.Int(0).tag(sync=True)

    def __init__(self, data: Any, *, width: int = 1040, **asked: Any) -> None:
        self._source, self._asked = data, asked
        self._advice = self._ask()
        super().__init__(width=width, buckets=self._advice.buckets)
        self.redraw()
        self.observe(lambda _change: self.redraw(), "buckets")

    def _ask(self) -> Advice:
        if hasattr(self._source, "spread"):  # advice that was asked for already
            return self._source
        return ts.advise_buckets(self._source, **self._asked)

    @traitlets.validate("buckets")
    def _tried(self, proposal: Mapping[str, Any]) -> int:
        tried = [a.buckets for a in self._advice.alternatives]
        if proposal["value"] not in tried:
            raise traitlets.TraitError(f"{proposal['value']} buckets were not tried; those are {tried}")
        return int(proposal["value"])

    @property
    def advice(self) -> Advice:
        """The advice itself."""
        return self._advice

    @property
    def model(self) -> AdviceModel:
        """What is drawn."""
        return advice_model(self._advice, shown=self.buckets)

    @property
    def code(self) -> str:
        """The call that gives what each bucket would hold."""
        asked = "".join(f", {name}={value!r}" for name, value in self._asked.items())
        return f"ts.advise_buckets(data{asked}).spread({self.buckets})"

    def _load(self) -> None:
        self._advice = self._ask()
        self.buckets = self._advice.buckets
        self.redraw()

    def figure(self, *, width: float) -> Figure:
        """The picture at a width."""
        return advice_figure(self.model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and what was looked at."""
        return {"title": "How many buckets", "subtitle": f"by {self.model.key}"}

    def text(self) -> str:
        """The engine's text and the buckets of the number shown."""
        return text_form(self.model, self._advice.text)

    def data(self) -> pa.Table:
        """Rows and bytes of each bucket of the number shown."""
        return self._advice.spread(self.buckets)

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """A frame for each number that was tried."""
        tried = [a.buckets for a in self._advice.alternatives]
        models = {n: advice_model(self._advice, shown=n) for n in tried}
        frames = {
            str(width): {
                str(n): static.frame(advice_figure(models[n], width=width))
                | {"code": self.code.replace(f"spread({self.buckets})", f"spread({n})")}
                for n in tried
            }
            for width in widths
        }
        return self.export_spec("buckets", widths, frames, "buckets")
