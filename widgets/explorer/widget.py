"""FileExplorer: snapshot → lists → manifests → files → row groups, and the difference of two snapshots.

Traits: `path` (where in the tree), `expanded` (open nodes), `snapshot`, `against`, `selected` (a data file),
`row_group`, `mode` changed | all (files of a difference), `search`, `sort` (a heading, `-size` downward),
`page` (number of the first row), `opened` (bucket id). What is not opened is not read; one page is sent.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol, Self

import pyarrow as pa
import traitlets

from widgets.chart.axes import Asked
from widgets.explorer import figure as draw
from widgets.explorer.model import (
    PAGE,
    Detail,
    ExplorerModel,
    FileRow,
    Listing,
    detail_of,
    text_form,
)
from widgets.explorer.sums import key_figures
from widgets.explorer.tree import SnapshotTree
from widgets.kit import format as fmt
from widgets.kit import svg
from widgets.kit.source import is_bucket, num_levels_of
from widgets.kit.svg import Figure
from widgets.kit.view import LINKED, View, module, require_source, title_of

EXPORT_NODES, EXPORT_FILES, CHOICES = 40, 40, 60


class Explorable(Protocol):
    """What the view needs of a table: the steps of `inspect` from snapshots to row groups."""

    @property
    def inspect(self) -> Any:
        """The table's metadata."""
        ...


class FileExplorer(View):
    """From a snapshot over its manifest lists and manifests to data files and their row groups.

    `table` is any table; `snapshot` an id (None: the newest); `against` another one with which its files are
    compared. `title` stands above the picture. Other traits (`path`, `search`, `sort`, …) go by keyword.

    >>> files = widgets.FileExplorer(orders, against=1).data()
    >>> list(zip(files["change"].to_pylist(), files["rows"].to_pylist(), strict=True))
    [('added', 1), ('kept', 3)]
    """

    chart = Asked(x="level", y="bytes", kind="bars")
    _esm = module("explorer")
    links = (*LINKED, "selected")
    path = traitlets.Unicode("").tag(sync=True)
    expanded = traitlets.Tuple(("base", "delta")).tag(sync=True)
    against = traitlets.Int(None, allow_none=True).tag(sync=True)
    mode = traitlets.Enum(["changed", "all"], "changed").tag(sync=True)
    search = traitlets.Unicode("").tag(sync=True)
    sort = traitlets.Unicode("").tag(sync=True)
    page = traitlets.Int(0).tag(sync=True)
    row_group = traitlets.Int(0).tag(sync=True)
    opened = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        table: Explorable,
        snapshot: int | None = None,
        against: int | None = None,
        *,
        title: str = "",
        **kwargs: object,
    ) -> None:
        require_source(table, type(self).__name__)
        self._table, self._title = table, title or title_of(table)
        self._num_levels = num_levels_of(table)
        self._tree: SnapshotTree | None = None
        self._listing: Listing | None = None
        self._detail: Detail | None = None
        self._figures: tuple[Any, ...] = ()
        self._quiet = False
        super().__init__(snapshot=snapshot, against=against, **kwargs)
        self.refresh()
        self.observe(lambda _change: self.refresh(), ["snapshot", "against"])
        self.observe(self._on_place, "path")
        self.observe(self._on_opened, "opened")
        self.observe(lambda _change: self._again(), ["expanded", "page"])
        self.observe(self._on_query, ["search", "sort", "mode"])
        self.observe(lambda _change: self._inspect_file(), ["selected", "row_group"])

    @property
    def code(self) -> str:
        """The call of `inspect` that gives the table."""
        kind, _, rest = self.path.partition("/")
        shown = self._tree.snapshot if self._tree is not None else self.snapshot
        if kind in ("base", "delta", "changelog"):
            return f"table.inspect.entries({rest!r})" if rest else f"table.inspect.manifest_lists({shown})"
        if kind == "index":
            return f"table.inspect.table_indexes({shown})"
        lines = f"table.inspect.state({shown})"
        if self.against is not None:
            lines = f"table.inspect.diff({self.against}, {shown})"
        return lines + (f"\ntable.inspect.row_groups({self._chosen()!r}, {shown})" if self._chosen() else "")

    def refresh(self) -> Self:
        """Read the snapshot again."""
        what = f"The metadata of {fmt.snapshot_id(self.snapshot)} could not be read."
        self.guarded(self._load, what=what, next_step="The snapshot may have expired: go to a newer one.")
        return self

    def _load(self) -> None:
        tree = SnapshotTree(self._table.inspect, self.snapshot, self.against)
        compared = tree.against is not None
        figures = key_figures(tree.files(), compared=compared, only_compacted=tree.only_compacted)
        self._tree, self._figures = tree, figures
        if not self._is_there(self.path):
            self._set(path="")
        self._list()
        self._detail = self._detail_of(self._chosen(), self.row_group)
        self.redraw()

    def _is_there(self, path: str) -> bool:
        """Whether the tree of this snapshot has the node."""
        kind, _, rest = path.partition("/")
        assert self._tree is not None
        if kind in ("", "files", "schema", "facts"):
            return True
        lists = self._tree.lists()["kind"].to_pylist()
        if kind not in lists:
            return False
        return not rest or rest in self._tree.manifests(kind)["file_name"].to_pylist()

    def _set(self, **values: object) -> None:
        """Change traits without acting on each."""
        self._quiet = True
        try:
            for name, value in values.items():
                setattr(self, name, value)
        finally:
            self._quiet = False

    def _list(self) -> None:
        assert self._tree is not None
        if self._tree.snapshot is None:
            self._listing = Listing(("file",), (), 0)
            return
        page = {"search": self.search, "sort": self.sort, "first": self.page}
        self._listing = self._tree.listing(self.path, changed=self.mode == "changed", **page)

    def _again(self) -> None:
        """The table of the present node, after a choice."""
        if self._quiet or self._tree is None:
            return
        what, step = (
            "This part of the metadata could not be read.",
            "It may have expired: go to a newer snapshot.",
        )
        self.guarded(self._list_again, what=what, next_step=step)

    def _list_again(self) -> None:
        self._list()
        self.redraw()

    def _on_place(self, _change: Mapping[str, Any]) -> None:
        if self._quiet:
            return
        kind, _, rest = self.path.partition("/")
        self._set(page=0, search="", sort="")
        if kind == "files" and is_bucket(rest):
            self._set(opened=rest)
        self._again()

    def _on_opened(self, change: Mapping[str, Any]) -> None:
        """A bucket opened in a linked view shows its files here."""
        if not self._quiet and change["new"] and self.path.partition("/")[0] in ("", "files"):
            self.path = f"files/{change['new']}"

    def _on_query(self, _change: Mapping[str, Any]) -> None:
        if not self._quiet:
            self._set(page=0)
            self._again()

    def _chosen(self) -> str:
        """The chosen data file; ids of a linked view that are no file names do not count."""
        name = self.selected[0] if self.selected else ""
        return name if isinstance(name, str) else ""

    def _inspect_file(self) -> None:
        """Open the footer of the chosen file."""
        if self._quiet or self._tree is None:
            return
        what = "The file could not be opened."
        step = "It may be gone: files of expired snapshots are deleted."
        self.guarded(self._open_file, what=what, next_step=step)

    def _open_file(self) -> None:
        try:
            self._detail = self._detail_of(self._chosen(), self.row_group)
        except BaseException:
            self._detail = None  # not before: clicks and cells may run in two threads of the kernel
            raise
        self.redraw()

    def _detail_of(self, name: str, group: int) -> Detail | None:
        if not name or self._tree is None or self._tree.snapshot is None:
            return None
        chunks = self._chunks(name)
        return None if chunks is None else detail_of(chunks, lead=self._lead(chunks), chosen=group)

    def _chunks(self, name: str) -> pa.Table | None:
        """Row groups of a file of either snapshot; None for a file that neither names."""
        assert self._tree is not None
        try:
            return self._tree.row_groups(name)
        except LookupError:
            return None

    def _lead(self, chunks: pa.Table) -> str:
        """The column whose bounds label the row groups: the first of the key that has some."""
        keys = [*(getattr(self._table, "primary_key", ()) or ())]
        partitions = set(getattr(self._table, "partition_by", ()) or ())
        there = chunks["column"].to_pylist()
        wanted = [key for key in keys if key not in partitions] + [c for c in there if not c.startswith("_")]
        return next((name for name in wanted if name in there), "")

    @property
    def model(self) -> ExplorerModel:
        """What is shown."""
        tree, empty = self._tree, Listing(("file",), (), 0)
        if tree is None or tree.snapshot is None:
            return ExplorerModel(self._title, None, None, "", self._num_levels, (), (), "", empty)
        nodes = tree.nodes(self.expanded, self.path)
        kind = str(tree.row.get("commit_kind") or "")
        return ExplorerModel(
            self._title,
            tree.snapshot,
            self.against,
            kind,
            self._num_levels,
            self._figures,
            nodes,
            self.path,
            self._listing or empty,
            self._detail,
        )

    def redraw(self) -> None:
        """Figures, tree, table and row groups as pictures of their own."""
        model, width = self.model, self.width
        frame: dict[str, Any] = {**self.words(width=width), "label": draw.label(model)}
        if model.snapshot is None:
            self.frame = frame | {"figures": svg.live(draw.explorer_figure(model, width=width))}
            return
        frame |= {"figures": svg.live(draw.figures_figure(model.figures, width=width))}
        frame |= self._tree_frame(model) | self._table_frame(model, width) | self._detail_frame(model, width)
        self.frame = frame | {"snapshots": self._choices()}

    def _tree_frame(self, model: ExplorerModel) -> dict[str, Any]:
        return {"tree": svg.live(draw.tree_figure(model.nodes, path=model.path))}

    def _table_frame(self, model: ExplorerModel, width: float) -> dict[str, Any]:
        listing = model.listing
        cards = {
            row.name: [
                row.change,
                row.level_text,
                row.place,
                f"{row.rows:,}" + (f", {row.deletes:,} deletes" if row.deletes else ""),
                row.keys,
                row.masked or "0",
            ]
            for row in listing.rows
            if isinstance(row, FileRow)
        }
        table = draw.table_figure(model, width=draw.table_width(width))
        place = {"first": listing.first, "found": listing.found, "step": PAGE}
        return {"table": svg.live(table), "cards": cards, "place": place, "note": draw.footnote(listing)}

    def _detail_frame(self, model: ExplorerModel, width: float) -> dict[str, Any]:
        if model.detail is None:
            return {"detail": ""}
        return {"detail": svg.live(draw.detail_figure(model.detail, width=draw.table_width(width)))}

    def _choices(self) -> list[int]:
        """Snapshots to compare with, the newest first."""
        return [] if self._tree is None else self._tree.others(CHOICES)

    def figure(self, *, width: float) -> Figure:
        """Everything as one picture."""
        return draw.explorer_figure(self.model, width=width, selected=self._chosen())

    def words(self, *, width: float) -> dict[str, Any]:
        """Title, and which snapshots."""
        tree = self._tree
        if tree is None or tree.snapshot is None:
            return {"title": f"Files of {self._title}" if self._title else "Files", "subtitle": ""}
        title = f"{self._title} {fmt.snapshot_id(tree.snapshot)}".strip()
        kind = str(tree.row.get("commit_kind") or "")
        against = f" · compared with {fmt.snapshot_id(self.against)}" if self.against is not None else ""
        return {"title": title, "subtitle": f"{kind}{against}"}

    def text(self) -> str:
        """The explorer in a terminal."""
        return text_form(self.model)

    def data(self) -> pa.Table:
        """All files of the snapshot, or the whole difference."""
        return (
            self._tree.files() if self._tree is not None and self._tree.snapshot is not None else pa.table({})
        )

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The first page of the open nodes' tables, and the row groups of the files that are shown."""
        frames = {str(width): self._export_frames(width) for width in widths}
        lists = {"selected": list(self.selected), "expanded": list(self.expanded), "hovered": ""}
        traits = "path", "snapshot", "against", "mode", "row_group", "search", "sort", "page", "opened"
        return self.export_spec("explorer", widths, frames, *traits, **lists)

    def _export_frames(self, width: int) -> dict[str, Any]:
        model = self.model
        if model.snapshot is None:
            whole = svg.live(draw.explorer_figure(model, width=width))
            return {"base": {"figures": whole, "label": draw.label(model)}, "nodes": {}, "details": {}}
        nodes, details = {}, {}
        figures = {"figures": svg.live(draw.figures_figure(model.figures, width=width))}
        paths = list(dict.fromkeys([self.path, *(node.path for node in model.nodes)]))[:EXPORT_NODES]
        for path in paths:
            opened = self._model_at(model, path)
            nodes[path] = self._tree_frame(opened) | self._table_frame(opened, width)
        for name in self._export_names(model):
            detail = self._detail_of(name, self.row_group)
            if detail is not None:
                details[name] = svg.live(draw.detail_figure(detail, width=draw.table_width(width)))
        return {"base": figures | {"label": draw.label(model)}, "nodes": nodes, "details": details}

    def _model_at(self, model: ExplorerModel, path: str) -> ExplorerModel:
        assert self._tree is not None
        if path == self.path:
            return model
        listing = self._tree.listing(path, changed=self.mode == "changed")
        return replace(model, path=path, listing=listing)

    def _export_names(self, model: ExplorerModel) -> list[str]:
        names = [row.name for row in model.listing.rows if isinstance(row, FileRow)]
        return list(dict.fromkeys([*([self._chosen()] if self._chosen() else []), *names]))[:EXPORT_FILES]
