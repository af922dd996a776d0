"""Leases: one service has a table at a time; a late one learns that it lost it."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.env import Env
from tablestore.core.errors import Unavailable
from tablestore.io.fileio import LocalFileIO
from tablestore.maintenance.leases import LeaseBook
from tests.faults import SimEnv

LEASE_MS = 10_000
TABLE = "shop.orders"


@pytest.fixture
def book(tmp_path: Path) -> Callable[[str, Env], LeaseBook]:
    def of(holder: str, env: Env) -> LeaseBook:
        return LeaseBook(LocalFileIO(env), str(tmp_path / "leases"), holder, lease_ms=LEASE_MS, env=env)

    return of


def test_a_lease_is_kept_passed_on_and_taken_when_it_ends(book: Callable[[str, Env], LeaseBook]):
    env = SimEnv()
    first, second = book("first", env), book("second", env)
    assert first.claim(TABLE).holder == second.claim(TABLE).holder == "first"
    env.move(LEASE_MS * 3 // 4)
    assert first.has(TABLE)  # renewed
    env.move(LEASE_MS * 3 // 4)
    assert not second.has(TABLE)
    env.move(LEASE_MS)
    assert second.has(TABLE)  # the first one is dead
    assert first.claim(TABLE).holder == "second"
    assert first.tables == ()
    second.release(TABLE)
    assert first.has(TABLE)


def test_only_the_newest_two_files_stay(book: Callable[[str, Env], LeaseBook], tmp_path: Path):
    env = SimEnv()
    book_a = book("first", env)
    for _ in range(20):
        env.move(LEASE_MS)
        book_a.renew() if book_a.tables else book_a.claim(TABLE)
    names = {path.name for path in (tmp_path / "leases" / "shop" / "orders").iterdir()}
    assert names == {"lease-19", "lease-20"}


def test_no_lease_is_written_where_the_lake_was(book: Callable[[str, Env], LeaseBook], tmp_path: Path):
    env = SimEnv()
    holder = book("first", env)
    holder.claim(TABLE)
    (tmp_path / "leases").rename(tmp_path / "away")
    env.move(LEASE_MS)
    with pytest.raises(Unavailable, match="mount what holds it"):
        holder.renew()
    holder.release(TABLE)
    assert not (tmp_path / "leases").exists()
    (tmp_path / "away").rename(tmp_path / "leases")
    assert holder.has(TABLE)
    (tmp_path / "leases").rename(tmp_path / "away")
    holder.release(TABLE)
    assert not (tmp_path / "leases").exists()


def test_two_never_have_a_table_at_once(book: Callable[[str, Env], LeaseBook], seeds: tuple[int, ...]):
    """Each by its own clock, which may be late or early by less than what is left of a lease."""
    for seed in seeds:
        draw = random.Random(seed)
        env = SimEnv(seed)
        books = [book(f"{seed}-{number}", env) for number in range(3)]
        numbers = list[int]()
        for _ in range(400):
            env.move(draw.randrange(LEASE_MS // 2))
            chosen = draw.choice(books)
            if draw.random() < 0.2:
                chosen.release(TABLE)
                continue
            lease = chosen.claim(TABLE)
            assert env.now_ms() <= lease.until_ms
            numbers.append(lease.number)
            others = [other.claim(TABLE).holder for other in books]
            assert set(others) == {lease.holder}
        assert numbers == sorted(numbers)


def test_of_many_that_claim_at_once_one_has_it(book: Callable[[str, Env], LeaseBook]):
    env = SimEnv()
    for turn in range(10):
        books = [book(f"{turn}-{number}", env) for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            holders = list(pool.map(lambda each_book: each_book.claim(TABLE).holder, books))
        assert len(set(holders)) == 1
        env.move(LEASE_MS + 1)


def test_a_file_that_is_no_lease_is_named(book: Callable[[str, Env], LeaseBook], tmp_path: Path):
    book_a = book("first", SimEnv())
    book_a.claim(TABLE)
    (tmp_path / "leases" / "shop" / "orders" / "lease-9").write_text("nonsense")
    with pytest.raises(ts.Corrupt, match=r"lease-9.*no lease"):
        book("second", SimEnv()).claim(TABLE)
