# ruff: noqa: E501  # lists of words and whole queries, a line each
"""Queries cut up and put together at random: they run, or fail by an error of ours."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from datasets.tpch.queries import QUERIES
from tablestore.core.errors import TablestoreError
from tablestore.sql import Session

WORDS = """SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT 1 OFFSET JOIN LEFT RIGHT FULL CROSS ON USING ( ) , . * = < >
<> + - / % || 'a' '' 1.5 1e3 -1 NULL TRUE DATE '2026-01-01' TIMESTAMP INTERVAL '1' DAY orders o events e order_id
customer amount day n count sum max upper coalesce cast as int string decimal(8,2) case when then else end and or
not in exists between like is union all except intersect with x distinct over partition row_number rank array[1,2]
[1] map row unnest lateral values (1,2) a b /*+ OPTIONS('a'='b') */ version of tag -- ; ? :p $x `q` "q" x'ff' ::
extract(year from day) substring(customer from 1 for 2) floor(day to month) read_csv('x') getenv('HOME') 99999999999999999999
orders$files sys.tables $ # @ { } \\ é 😀 \0""".split()
SEEDS = [
    "SELECT o.customer, sum(amount) AS s FROM orders o JOIN events e ON o.order_id = e.n WHERE amount > 7 GROUP BY 1",
    "SELECT * FROM orders WHERE EXISTS (SELECT * FROM events WHERE n = order_id) ORDER BY amount DESC LIMIT 2",
    "WITH x AS (SELECT order_id, row_number() OVER (PARTITION BY customer ORDER BY amount) r FROM orders) SELECT * FROM x",
    "SELECT CASE WHEN amount IS NULL THEN 0 ELSE amount END, customer || 'x' FROM orders UNION ALL SELECT n, 'y' FROM events",
    "SELECT DATE_FORMAT(day, 'yyyy-MM'), count(DISTINCT n) FROM events GROUP BY DATE_FORMAT(day, 'yyyy-MM')",
]


STREAMS = [
    "SELECT o.customer, count(*) AS n, sum(o.amount) AS s FROM orders AS o WHERE amount > 7 GROUP BY o.customer HAVING count(*) > 0",
    "SELECT e.n, o.customer FROM (SELECT n, PROCTIME() AS p FROM events) AS e LEFT JOIN orders FOR SYSTEM_TIME AS OF e.p AS o ON o.order_id = e.n AND o.amount > 7",
    "SELECT upper(customer) AS c, order_id FROM orders UNION ALL SELECT 'x', n FROM events WHERE n > 1",
    "SELECT DISTINCT customer FROM orders",
]


@pytest.mark.parametrize("tens", range(15))
def test_only_errors_of_ours(session: Session, tens: int) -> None:
    for text in (changed(random.Random(10 * tens + n), SEEDS) for n in range(10)):
        with suppress(TablestoreError), noting(text):
            for result in session.script(text):
                for _, _ in zip(range(3), result.to_batches(), strict=False):
                    pass


@pytest.mark.parametrize("tens", range(15))
def test_only_errors_of_ours_in_a_stream(session: Session, tens: int) -> None:
    session.sql("SET 'execution.runtime-mode' = 'streaming'")
    for text in (changed(random.Random(10 * tens + n), [*SEEDS, *STREAMS]) for n in range(10)):
        with suppress(TablestoreError), noting(text):
            for result in session.script(text):
                stop = threading.Timer(0.2, result.stop)
                stop.start()
                for _, _ in zip(range(3), result.to_batches(), strict=False):
                    pass
                stop.cancel()
                result.stop()


@contextmanager
def noting(text: str) -> Iterator[None]:
    """An error in the block says of which text it is."""
    try:
        yield
    except Exception as e:
        e.add_note(text)
        raise


def changed(draw: random.Random, seeds: list[str]) -> str:
    """A query with words put in, taken out, and parts of others."""
    words = draw.choice(seeds).split()
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(len(words) + 1)
        change = draw.random()
        if change < 0.5:
            words.insert(place, draw.choice(WORDS))
        elif change < 0.75 and words:
            del words[place % len(words)]
        else:
            other = draw.choice(seeds).split()
            start = draw.randrange(len(other))
            words[place:place] = other[start : start + draw.randint(1, 5)]
    return " ".join(words)


@pytest.mark.parametrize("number", QUERIES)
def test_a_query_without_some_of_its_words(session: Session, number: int) -> None:
    draw = random.Random(number)
    words = QUERIES[number].split()
    for _ in range(5):
        kept = [w for w in words if draw.random() > 0.03]
        with pytest.raises(TablestoreError):
            session.sql(" ".join(kept)).to_arrow()
