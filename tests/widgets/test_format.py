"""Numbers and units as text."""

from datetime import datetime

import pytest

from widgets.kit import format as fmt


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (9_919_529, "9.46 MiB"),
        (26_843_546, "25.6 MiB"),
        (587_202_560, "560 MiB"),
        (1023 * 2**20 + 700_000, "1.00 GiB"),
        (1_181_116_006, "1.10 GiB"),
        (-2048, "−2.00 KiB"),
        (None, "–"),
    ],
)
def test_bytes_have_three_significant_digits_and_carry_into_the_next_unit(count, text):
    assert fmt.bytes_text(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(7, "7"), (999.4, "999"), (1234, "1.2 k"), (84_000, "84 k"), (652_692, "653 k"), (999_600, "1.00 M")],
)
def test_short_counts_for_axes(value, text):
    assert fmt.short_count(value) == text


def test_short_counts_of_millions_keep_three_digits():
    assert [fmt.short_count(n) for n in (40_812_345, 59_986_052, 2.5e9)] == ["40.8 M", "60.0 M", "2.50 G"]


def test_a_share_never_rounds_to_nothing_or_to_all():
    shares = [fmt.percent(n, 1000) for n in (0, 1, 620, 999, 1000)]
    assert shares == ["0 %", "< 1 %", "62 %", "99 %", "100 %"]


def test_snapshot_ids_have_no_separators():
    assert fmt.snapshot_id(7819) == "#7819"


def test_durations_change_from_tenths_to_minutes():
    assert [fmt.duration(s) for s in (0.44, 9.94, 9.96, 112, 7389, None)] == [
        "0.4 s",
        "9.9 s",
        "0:10",
        "1:52",
        "2:03:09",
        "–",
    ]


def test_a_stamp_names_its_day_only_if_it_is_not_today():
    time = datetime(2026, 10, 14, 3, 12, 40)
    assert fmt.stamp(time, today=time) == "03:12:40"
    assert fmt.stamp(time, today=datetime(2026, 11, 20)) == "14 Oct 03:12:40"
    assert fmt.stamp(time, today=datetime(2027, 1, 1)) == "14 Oct 2026 03:12:40"


def test_whole_number_keys_get_separators_and_others_stay():
    assert fmt.key_range("18000", "1492000") == "18,000 … 1,492,000"
    assert fmt.key_range("[15953]", "[-4]") == "15,953 … −4"
    assert fmt.key_range("[15953, 1]", None) == "[15953, 1] … null"
    assert fmt.key("1" * 30) == "1" * 30


def test_long_file_names_lose_their_middle():
    name = "data-91c4e07a-5d1c-4f0a-9b3f-2f6f6d2c1a77-3.parquet"
    short = fmt.file_name(name)
    assert short.startswith("data-91c4")
    assert short.endswith("-3.parquet")
    assert len(short) <= 26


def test_estimates_are_ranges_rounded_outward() -> None:
    assert fmt.factor(1.31, 1.06, 1.77) == "1.0 to 1.8"
    assert fmt.factor(1.31, 1.1, 1.9) == "1.1 to 1.9"
    assert fmt.factor(14.2, 11.7, 21.2) == "11 to 22"
    assert fmt.factor(1.31) == fmt.factor(1.31, 1.31, 1.31) == "≈ 1.31"
    assert fmt.factor(None) == "–"
    assert fmt.bytes_range(10_240, 9_318, 11_264) == "9.10 to 11.0 KiB"
    assert fmt.bytes_range(1_024, 980, 1_229) == "980 B to 1.20 KiB"
    assert fmt.bytes_range(1_024, 1_024, 1_024) == "≈ 1.00 KiB"
