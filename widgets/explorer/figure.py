"""Key figures, the metadata tree, a page of a table with key lanes, and one file's row groups, as SVG.

Invariants: a table is as high as a whole page, so paging and searching move nothing below it; a removed file
is struck and dashed, an added one filled, one that only got another deletion vector has `~`; narrow tables
give up *masked*, then *rows*. Pure: model → `Figure`. Called by the widget and by the static export.
"""

from widgets.explorer.model import (
    FACTS,
    PAGE,
    Detail,
    ExplorerModel,
    FileRow,
    KeyFigure,
    Listing,
    Node,
    PlainRow,
)
from widgets.kit import format as fmt
from widgets.kit.svg import Figure, code, fit, group, line, num, path, rect, stack, text, text_width
from widgets.kit.theme import level_fill, level_text, var

MARGIN, TREE, ROW, HEAD, NODE = 16, 236, 26, 30, 24
LANE, BAND, FOOT = 196.0, 68, 30
CHUNK, GROUP = 22, 26
STACKED = 620  # below this width the table stands below the tree


def table_width(width: float) -> float:
    """The width of the table, which stands beside the tree where there is room."""
    return width - TREE if width >= STACKED else width


def explorer_figure(model: ExplorerModel, *, width: float, selected: str = "") -> Figure:
    """Figures on top, tree at the left, table and row groups beside it."""
    if model.snapshot is None:
        body = text(MARGIN, 28, "Nothing written yet.", fill="ink", weight=600)
        body += text(MARGIN, 46, "The first commit's files appear here after refresh().")
        return Figure(width, 64, body, label(model))
    tree = tree_figure(model.nodes, path=model.path)
    room = table_width(width)
    right = [table_figure(model, width=room, selected=selected)]
    if model.detail is not None:
        right.append(detail_figure(model.detail, width=room))
    column, top = stack(right), figures_figure(model.figures, width=width)
    if room == width:
        ground = rect(0, 0, width, tree.height, fill=var("panel"))
        whole = stack([top, Figure(width, tree.height, ground + tree.body), column])
        return Figure(width, whole.height, whole.body, label(model))
    height = max(tree.height, column.height)
    body = rect(0, 0, TREE, height, fill=var("panel")) + tree.body + line(TREE, 0, TREE, height)
    body += group(column.body, transform=f"translate({TREE} 0)")
    below = Figure(width, height, body)
    whole = stack([top, below])
    return Figure(width, whole.height, whole.body, label(model))


def label(model: ExplorerModel) -> str:
    """The picture in words."""
    if model.snapshot is None:
        return "Files: nothing written yet"
    against = f" against {fmt.snapshot_id(model.against)}" if model.against is not None else ""
    figures = ", ".join(f"{figure.name} {figure.value}" for figure in model.figures[:3])
    return f"Files of {fmt.snapshot_id(model.snapshot)}{against}: {figures}"


def figures_figure(figures: tuple[KeyFigure, ...], *, width: float) -> Figure:
    """Five figures side by side, or two and two where it is narrow; notes are cut to their room."""
    beside = max(len(figures), 1) if width >= STACKED else 2
    rows, pitch = -(-max(len(figures), 1) // beside), width / beside
    edges = [0.5, *(row * BAND - 0.5 for row in range(1, rows + 1))]
    parts = [line(0, edge, width, edge) for edge in edges]
    for number, figure in enumerate(figures):
        row, at = divmod(number, beside)
        x, y = at * pitch + MARGIN, row * BAND
        room = pitch - MARGIN - 8
        size = 15 if width >= 900 else 12
        parts.append(text(x, y + 20, figure.name, size=11))
        value = fit(figure.value, room, size=size, weight=600)
        parts.append(text(x, y + 40, value, size=size, fill="ink", weight=600))
        parts.append(text(x, y + 57, fit(figure.note, room, size=11), size=11))
        if at:
            parts.append(line(at * pitch, y + 12, at * pitch, y + BAND - 12))
    return Figure(width, rows * BAND, "".join(parts))


def tree_figure(nodes: tuple[Node, ...], *, path: str, ring: bool = True) -> Figure:
    """The open part of the tree; the chosen node in a ring."""
    parts = [text(MARGIN, 24, "Metadata", size=13, fill="ink", weight=600)]
    y = 36.0
    for node in nodes:
        parts.append(_node(node, y, chosen=ring and node.path == path and not node.more))
        y += NODE
    return Figure(TREE, y + 10, "".join(parts), "metadata of the snapshot")


def _node(node: Node, y: float, *, chosen: bool) -> str:
    x = 14.0 + node.depth * 12
    parts = [rect(4, y, TREE - 8, NODE, fill="none", class_="hit")]
    if chosen:
        box = {"fill": var("bg"), "stroke": var("ink"), "stroke_width": 2}
        parts.append(rect(5, y + 1, TREE - 10, NODE - 2, rx=4, **box))
    if node.open is not None:
        parts.append(_triangle(x, y + NODE / 2, opened=node.open))
    noted = text_width(node.note, size=11)
    room = TREE - 14 - noted - 8 - (x + 12)
    if node.code:
        shown = fmt.file_name(node.label, keep=max(int(room / 6.8), 8))
        parts.append(code(x + 12, y + 16, fit(shown, room, size=11, monospace=True), fill="ink"))
    else:
        parts.append(text(x + 12, y + 16, fit(node.label, room), fill="ink"))
    parts += [" ", text(TREE - 14, y + 16, node.note, size=11, text_anchor="end")]
    opened = None if node.open is None else str(node.open).lower()
    attributes = {"role": "treeitem", "aria_level": node.depth + 1, "aria_expanded": opened}
    kind = "node more" if node.more else "node"
    return group(*parts, class_=kind, data_path=node.path, **attributes)


def _triangle(x: float, y: float, *, opened: bool) -> str:
    steps = f"M{num(x - 2)} {num(y - 2)}h8l-4 5z" if opened else f"M{num(x)} {num(y - 4)}v8l5 -4z"
    return path([steps], fill=var("ink2"), class_="turn")


def table_figure(model: ExplorerModel, *, width: float, selected: str = "") -> Figure:
    """A page of the table of the chosen node; always as high as a whole page."""
    listing = model.listing
    parts = _files(model, width, selected) if listing.files else _plain(listing, width)
    y = HEAD + PAGE * ROW + 4
    parts.append(line(MARGIN, y, width - MARGIN, y))
    parts.append(text(MARGIN, y + 19, fit(footnote(listing), width - 2 * MARGIN, size=11), size=11))
    return Figure(width, y + FOOT, "".join(parts), "")


def footnote(listing: Listing) -> str:
    """`1–12 of 41,233`, what a search left, what a diff does not show."""
    what = "file" if listing.files else "row"
    if not listing.found:
        words = f"no {what} holds this text" if listing.total else f"no {what}s here"
    else:
        last = listing.first + len(listing.rows)
        words = f"{listing.first + 1:,}–{last:,} of {fmt.plural(listing.found, what)}"
        if listing.found < listing.total:
            words += f" found among {listing.total:,}"
    if listing.unchanged[0]:
        words += (
            f" · {fmt.plural(listing.unchanged[0], 'unchanged file')}, {fmt.bytes_text(listing.unchanged[1])}"
        )
    return words


def _files(model: ExplorerModel, width: float, selected: str) -> list[str]:
    at = _columns(width)
    listing = model.listing
    parts = [_heading("file", at["file"], ""), _heading("level", at["level"], "")]
    parts += [_heading("rows", at["rows"], "end")] if "rows" in at else []
    parts.append(_heading("size", at["size"], "end"))
    if "keys" in at:
        low, high = listing.ends
        parts.append(
            _heading(
                "keys",
                at["keys"],
                "",
                words=f"keys {fit(low, at['lane'] / 2 - 34, size=11)}" if low else "keys",
            )
        )
        end = at["keys"] + at["lane"]
        parts.append(text(end, 19, fit(high, at["lane"] / 2 - 4, size=11), size=11, text_anchor="end"))
    parts += [_heading("masked", width - MARGIN, "end")] if "masked" in at else []
    parts.append(line(MARGIN, HEAD - 2, width - MARGIN, HEAD - 2, stroke="line2"))
    for number, row in enumerate(listing.rows):
        if isinstance(row, FileRow) and row.change == "added":
            parts.append(rect(6, HEAD + number * ROW, width - 12, ROW, fill=var("sel-tint")))
    if "keys" in at and listing.ends[0]:
        ys = (HEAD + (number + 0.5) * ROW for number in range(len(listing.rows)))
        steps = [f"M{num(at['keys'])} {num(y)}h{num(at['lane'])}" for y in ys]
        parts.append(path(steps, stroke=var("line")))
    for number, row in enumerate(listing.rows):
        assert isinstance(row, FileRow)
        parts.append(_file(model, row, HEAD + number * ROW, at, width, chosen=row.name == selected))
    return parts


def _columns(width: float) -> dict[str, float]:
    """Where columns begin (of numbers: end), as many as fit; `name` and `lane` are widths."""
    wide = width >= 620
    name = 186.0 if wide else 128.0
    x = MARGIN + 18 + name
    at = {"file": MARGIN + 18.0, "name": name, "level": x}
    x += 44
    lane = LANE if wide else 90.0
    if width >= x + 76 + 70 + 28 + lane + MARGIN:
        x += 66
        at["rows"] = x
    x += 76 if wide else 66
    at["size"] = x
    if width >= x + 20 + lane + 90 + MARGIN:
        at["masked"] = width - MARGIN
    room = width - MARGIN - (90 if "masked" in at else 0) - (x + 24)
    if room >= lane - 4:
        at["keys"], at["lane"] = x + 24, min(room, LANE)
    return at


def _heading(name: str, x: float, anchor: str, *, words: str = "") -> str:
    shown = text(x, 19, words or name, size=11, text_anchor=anchor or None)
    return group(shown, class_="sort", role="columnheader", data_sort=name)


def _file(
    model: ExplorerModel, row: FileRow, y: float, at: dict[str, float], width: float, *, chosen: bool
) -> str:
    middle, gone = y + ROW / 2 + 4, row.change == "removed"
    parts = [rect(6, y, width - 12, ROW, fill="none", class_="hit")]
    if chosen:
        parts.append(
            rect(7, y + 1, width - 14, ROW - 2, rx=4, fill="none", stroke=var("ink"), stroke_width=2)
        )
    hue = {"removed": "err", "added": "ok"}.get(row.change, "ink2")
    parts.append(text(MARGIN, middle, row.sign, fill=hue, weight=600))
    ink = "ink3" if gone else "ink"
    name = fmt.file_name(row.name, keep=int(at["name"] / 7))
    parts.append(code(at["file"], middle, name, fill=ink, text_decoration="line-through" if gone else None))
    parts.append(_level(model, row, at["level"], y))
    if "rows" in at:
        parts.append(text(at["rows"], middle, f"{row.rows:,}", fill=ink, text_anchor="end"))
    parts.append(text(at["size"], middle, fmt.bytes_text(row.bytes), fill=ink, text_anchor="end"))
    if "keys" in at:
        parts.append(_lane(model, row, at["keys"], y + ROW / 2, at["lane"]))
    if "masked" in at:
        parts.append(text(at["masked"], middle, row.masked, fill="ink", text_anchor="end"))
    return group(*parts, class_="row", data_name=row.name, role="gridcell")


def _level(model: ExplorerModel, row: FileRow, x: float, y: float) -> str:
    """The level on its own colour; where a file moved, also where it was."""
    fill = level_fill(row.shown_level, model.num_levels)
    ink = level_text(row.shown_level, model.num_levels)
    chip = rect(x, y + 5, 20, 16, rx=3, fill=fill, stroke=var("edge"), class_="box")
    chip += text(x + 10, y + 17, row.shown_level, size=11, fill=ink, text_anchor="middle")
    if row.change == "moved":
        chip += text(x + 24, y + 17, f"←{row.level_before}", size=11)
    return chip


def _lane(model: ExplorerModel, row: FileRow, x: float, y: float, room: float) -> str:
    """The keys of a file on the axis of all listed files."""
    if row.lo is None or row.hi is None:
        return text(x, y + 4, "no key", size=11, fill="ink3")
    wide = max((row.hi - row.lo) * room, 3.0)
    left = min(x + row.lo * room, x + room - wide)
    if row.change == "removed":
        dashed = {"fill": var("bg"), "stroke": var("line2"), "stroke_dasharray": "3 2"}
        return rect(left, y - 5, wide, 10, rx=2, **dashed)
    fill = level_fill(row.shown_level, model.num_levels)
    return rect(left, y - 5, wide, 10, rx=2, fill=fill, stroke=var("edge"))


def _plain(listing: Listing, width: float) -> list[str]:
    """Any other table: the first column wide, the others as wide as their words."""
    shown = [row for row in listing.rows if isinstance(row, PlainRow)]
    places = _widths(listing.columns, shown, width)
    parts = []
    for name, (x, _) in zip(listing.columns, places, strict=False):
        parts.append(_heading(name, x, ""))
    parts.append(line(MARGIN, HEAD - 2, width - MARGIN, HEAD - 2, stroke="line2"))
    for number, row in enumerate(shown):
        y = HEAD + number * ROW
        cells = [rect(6, y, width - 12, ROW, fill="none", class_="hit")]
        for at, (cell, (x, room)) in enumerate(zip(row.cells, places, strict=False)):
            words = fmt.file_name(cell, keep=30) if at == 0 and listing.columns != FACTS else cell
            put = code if at == 0 and listing.columns != FACTS else text
            mono = put is code
            cut = fit(words, room, size=11 if mono else 12, monospace=mono)
            cells.append(put(x, y + ROW / 2 + 4, cut, fill="ink" if at == 0 else "ink2"))
        parts.append(group(*cells, class_="row", data_opens=row.opens, role="gridcell"))
    return parts


def _widths(columns: tuple[str, ...], rows: list[PlainRow], width: float) -> list[tuple[float, float]]:
    """(where a column begins, its room); those that do not fit are left out."""
    places, x = [], float(MARGIN)
    for at, name in enumerate(columns):
        words = [row.cells[at] for row in rows] + [name]
        longest = max(text_width(fmt.file_name(w, keep=30) if at == 0 else w) for w in words)
        room = min(max(longest, 40.0), 260.0 if at == 0 or columns == FACTS else 190.0)
        if at == len(columns) - 1:
            room = max(min(width - MARGIN - x, max(room, longest)), 40.0)
        if x + min(room, 60) > width - MARGIN:
            break
        places.append((x, min(room, width - MARGIN - x)))
        x += room + 18
    return places


def detail_figure(detail: Detail, *, width: float) -> Figure:
    """The row groups of a file, and the column chunks of the chosen one."""
    inner = width - 2 * MARGIN
    head = fmt.file_name(detail.name, keep=34 if width >= 620 else 22)
    parts = [line(MARGIN, 0.5, width - MARGIN, 0.5), text(MARGIN, 24, head, size=13, fill="ink", weight=600)]
    after = MARGIN + text_width(head, size=13, weight=600) + 10
    parts.append(text(after, 24, fit(detail.summary, width - MARGIN - after)))
    shown = detail.groups[: int(inner // 12)]
    if len(shown) < len(detail.groups):
        words = f"first {len(shown):,} drawn"
        parts.append(text(width - MARGIN, 24, words, size=11, text_anchor="end"))
    pitch = inner / max(len(shown), 1)
    fits = all(text_width(bounds, size=11) < pitch - 2 for *_, bounds in shown)
    for at, chunk in enumerate(shown):
        mine = chunk[0] == detail.chosen
        parts.append(_row_group(chunk, MARGIN + at * pitch, pitch - 4, chosen=mine, bounded=fits))
        if mine and not fits:
            parts.append(text(MARGIN, 36 + GROUP + 18, fit(_group_words(chunk), inner, size=11), size=11))
    y = 36 + GROUP + 34.0
    parts.append(_chunk_table(detail, y, width))
    height = y + HEAD + len(detail.chunks) * CHUNK + (24 if len(detail.chunks) < detail.columns else 8)
    return Figure(width, height, "".join(parts))


def _group_words(row_group: tuple[int, int, int, str]) -> str:
    number, rows, size, bounds = row_group
    words = f"group {number}: {rows:,} rows, {fmt.bytes_text(size)}"
    return f"{words}, {bounds}" if bounds else words


def _row_group(
    row_group: tuple[int, int, int, str], x: float, wide: float, *, chosen: bool, bounded: bool
) -> str:
    number, _, size, bounds = row_group
    parts = [rect(x, 36, wide, GROUP, rx=2, fill=var("l3"), stroke=var("edge"), class_="box")]
    words = fmt.bytes_text(size)
    if text_width(words) + 12 < wide:
        parts.append(text(x + 7, 36 + 17, words, fill=level_text(3, 6)))
    if bounded:
        parts.append(text(x, 36 + GROUP + 18, bounds, size=11))
    if chosen:
        ring = {"fill": "none", "stroke": var("ink"), "stroke_width": 2}
        parts.append(rect(x - 2.5, 33.5, wide + 5, GROUP + 5, rx=4, **ring))
    return group(*parts, class_="rg", data_group=number, role="button", aria_label=_group_words(row_group))


def _chunk_table(detail: Detail, y: float, width: float) -> str:
    """Columns of the chosen row group; narrow ones leave out encodings, then the type."""
    names = ["column", "type", "encodings", "size", "ratio", "nulls", "min … max"]
    starts = {"column": float(MARGIN)}
    x = MARGIN + 128.0
    for name, room, least in (("type", 100, 560), ("encodings", 104, 660)):
        if width >= least:
            starts[name] = x
            x += room
    for name, room, least in (("size", 62, 0), ("ratio", 48, 560), ("nulls", 54, 0)):
        if width >= least:
            x += room
            starts[name] = x
    starts["min … max"] = x + 18
    parts = []
    for name in names:
        if name in starts:
            end = name in ("size", "ratio", "nulls")
            parts.append(text(starts[name], y + 16, name, size=11, text_anchor="end" if end else None))
    parts.append(line(MARGIN, y + 24, width - MARGIN, y + 24))
    for at, chunk in enumerate(detail.chunks):
        base = y + HEAD + at * CHUNK + 13
        parts.append(code(MARGIN, base, fit(chunk.column, 122, size=11, monospace=True), fill="ink"))
        if "type" in starts:
            parts.append(text(starts["type"], base, fit(chunk.type, 96)))
        if "encodings" in starts:
            parts.append(text(starts["encodings"], base, fit(chunk.encodings, 100)))
        for name, words in (("size", chunk.size), ("ratio", chunk.ratio), ("nulls", chunk.nulls)):
            if name in starts:
                parts.append(text(starts[name], base, words, fill="ink", text_anchor="end"))
        wide = width - MARGIN - starts["min … max"]
        parts.append(text(starts["min … max"], base, fit(chunk.bounds, wide), fill="ink"))
    if len(detail.chunks) < detail.columns:
        base = y + HEAD + len(detail.chunks) * CHUNK + 14
        parts.append(text(MARGIN, base, f"first {len(detail.chunks)} of {detail.columns:,} columns", size=11))
    return "".join(parts)
