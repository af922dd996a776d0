"""Escaping, fitting and wrapping of text; the two forms of a figure."""

import xml.etree.ElementTree as ET

from widgets.kit import svg
from widgets.kit.theme import var

NASTY = "<img src=x onerror=alert(1)>\"'&\x00\x1b\u202e\n]]>"


def test_escaped_text_survives_as_text_in_content_and_in_attributes():
    element = ET.fromstring(svg.tag("g", svg.esc(NASTY), aria_label=NASTY))
    assert len(element) == 0
    assert element.text == element.get("aria-label")
    assert element.text.startswith("<img src=x onerror=alert(1)>\"'&")
    assert "\u202e" not in element.text
    assert "\x00" not in element.text


def test_lone_surrogates_do_not_break_a_document():
    assert svg.esc("a\ud800b").encode() == "a\ufffdb".encode()


def test_text_is_cut_to_its_room_with_an_ellipsis():
    cut = svg.fit("a table with quite a long name", 80)
    assert cut.endswith("…")
    assert svg.text_width(cut) <= 80
    assert svg.fit("short", 80) == "short"


def test_wrapping_keeps_all_words_until_the_last_line_is_cut():
    rows = svg.wrap("one two three four five six seven", 60, lines=2)
    assert len(rows) == 2
    assert rows[0] == "one two"
    assert rows[1].endswith("…")
    assert " ".join(svg.wrap("one two three", 60, lines=9)) == "one two three"


def test_a_word_wider_than_the_room_is_cut_instead_of_lost():
    assert svg.wrap("x" * 200, 60) == [svg.fit("x" * 200, 60)]


def test_a_standalone_document_is_xml_with_values_instead_of_variables():
    figure = svg.Figure(100, 40, svg.text(1, 2, "a < b") + svg.rect(0, 0, 5, 5, fill=var("l3")), "label")
    document = svg.standalone(figure, theme="dark")
    ET.fromstring(document)
    assert "var(" not in document
    assert "#2f6ea6" in document


def test_a_stack_is_as_high_as_its_parts_and_gaps():
    parts = [svg.Figure(100, 40, ""), svg.Figure(120, 10, "")]
    stacked = svg.stack(parts, gap=4)
    assert (stacked.width, stacked.height) == (120, 54)


def test_a_place_is_cut_in_its_partition_and_keeps_its_bucket():
    place = f"region={'north-' * 30} · bucket 3 · 2 files"
    for width in (140, 300, 400):
        cut = svg.fit_place(place, width)
        assert cut.startswith("region") or width < 150
        assert cut.endswith("… · bucket 3 · 2 files")
        assert svg.text_width(cut) <= width
    assert svg.fit_place("bucket 3", 400) == "bucket 3"
    assert svg.fit_place("p=1 · bucket 3", 400) == "p=1 · bucket 3"
    assert svg.fit_place(place, 40).endswith("…")


def test_a_long_word_is_broken_after_a_sign_and_keeps_its_letters():
    call = "duckdb.from_arrow(table.scan().to_reader())"
    rows = svg.wrap(f"call {call}", 150, monospace=True, lines=9)
    assert len(rows) > 2
    assert "".join(rows).replace("call", "", 1) == call
    assert all(row == "call" or row == rows[-1] or row[-1] in svg.BREAKS for row in rows)
    assert all(svg.text_width(row, monospace=True) <= 150 for row in rows)
