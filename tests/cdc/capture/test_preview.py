"""What a capture would do, from the first events of its source."""

from __future__ import annotations

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.preview import preview
from tablestore.cdc.capture.rules import CaptureRules
from tablestore.cdc.capture.source import SKIPPED
from tests.cdc.capture.fakes import FakeSource, FakeStep, captured, event, shape

WIDER = shape(("id", "BIGINT NOT NULL"), ("v", "DOUBLE"), ("day", "DATE"))


def test_tables_with_their_targets_and_what_is_left_out() -> None:
    keyless = shape(("v", "INT"), key=())
    source = FakeSource(
        [
            FakeStep(
                [captured("b", rows=7), event(SKIPPED, "g", reason="it has no key"), captured("a", keyless)]
            )
        ]
    )
    actual = preview(source, CaptureRules.of("shop.*", into="ods"))
    assert [(str(planned.source), planned.target, planned.rows, planned.refused) for planned in actual] == [
        ("shop.b", "ods.b", 7, False),
        ("shop.a", "", None, True),
        ("shop.g", "", None, False),
    ]
    assert "without a primary key" in actual[1].reason
    assert actual[2].reason == "it has no key"


def test_tables_of_one_target_show_its_columns_or_why_they_cannot_share_it() -> None:
    source = FakeSource([FakeStep([captured("a_1"), captured("a_2", WIDER)])])
    apart = preview(source, CaptureRules.of("shop.a_*", into="ods.a"))
    assert all(planned.refused and "merge_shards" in planned.reason for planned in apart)
    both = preview(source, CaptureRules.of("shop.a_*", into="ods.a", merge_shards=True))
    assert [planned.source for planned in both] == [SourceName("shop", "a_1"), SourceName("shop", "a_2")]
    for planned in both:
        assert planned.columns is not None
        assert {n: str(t) for n, t in planned.columns.types.items()} == {
            "id": "BIGINT NOT NULL",
            "v": "DOUBLE",
            "day": "DATE",
        }
