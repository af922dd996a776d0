"""Every service on a disk that fills up and is freed again, or that goes away and comes back: who waits says
so, nothing is half written or begun anew, and all goes on by itself."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.demo.postgres import Postgres
from notebooks.soak.services import Services
from tablestore.cli.door import ExitCode
from tests.servers import mariadb as servers
from tests.servers.mariadb import MariaDb
from tests.suite import counterparts

pytestmark = pytest.mark.large
SECONDS = 180.0
FULL = "[Errno 28]"  # no space left on device


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 24 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        pytest.skip(f"a disk of its own cannot be mounted here: {e}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    """Leave no byte on it."""
    with (disk / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size) == size:
                    pass


def until(holds: Callable[[], object], what: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.3)


class Shop:
    """A table of the same rows in a MariaDB and in a PostgreSQL."""

    def __init__(self, mariadb: MariaDb, postgres: Postgres) -> None:
        self.mariadb, self.postgres, self.rows = mariadb, postgres, 0
        mariadb.run("CREATE DATABASE shop", "CREATE TABLE shop.t (k INT PRIMARY KEY)")
        postgres.run("CREATE DATABASE shop")
        with postgres.connect(database="shop") as connection:
            for statement in (
                "CREATE TABLE t (k INT PRIMARY KEY)",
                "CREATE PUBLICATION tablestore FOR ALL TABLES",
                "GRANT SELECT ON t TO reader",
            ):
                connection.execute(statement)

    def put(self) -> None:
        self.rows += 1
        self.mariadb.run(f"INSERT INTO shop.t VALUES ({self.rows})")
        with self.postgres.connect(database="shop") as connection:
            connection.execute(f"INSERT INTO t VALUES ({self.rows})")


def add_services(services: Services, shop: Shop, lake: Path) -> None:
    """All but the tiering service, which needs the coordinator's address."""
    cli, where = "tablestore.cli", ("--warehouse", str(lake))
    for name, server in (("my", shop.mariadb), ("pg", shop.postgres)):
        source = ("--from", f"{server.url}/shop", "--password-file", str(server.password_file))
        services.add(name, cli, "cdc", *source, *where, "--into", name, "--engine", "local")
    services.add("maintain", cli, "maintain", *where, "--runs", "2", "--poll", "1 s")
    services.add("coordinator", cli, "tier", "--serve", *where)


def test_services_wait_on_a_full_disk_and_go_on_when_it_is_freed(disk: Path) -> None:
    pytest.importorskip("prometheus_client")
    counterparts.need("PostgreSQL")
    lake = ts.connect(disk / "lake")
    options = {"bucket": 1, "write-only": True, "log.system": "embedded", "tablestore.tiering.enabled": True}
    options["tablestore.tiering.freshness"] = "1 s"
    logged = lake.create_table("d.log", schema={"id": ts.BIGINT}, primary_key=["id"], options=options)
    written = 0

    def write() -> bool:
        nonlocal written
        try:
            logged.write([{"id": written}])
        except ts.Unavailable as e:
            if not e.no_space:
                raise
            return False
        written += 1
        return True

    with servers.mariadb(servers.FAST) as mariadb, Postgres() as postgres, Services(trusted="") as services:
        shop = Shop(mariadb, postgres)
        add_services(services, shop, disk / "lake")
        for name in services.names:
            services.start(name)
        until(lambda: "fluss://" in services.output("coordinator"), lambda: services.output("coordinator"))
        address = services.output("coordinator").splitlines()[0]
        services.add("tier", "tablestore.cli", "tier", "--from", address, "--warehouse", str(disk / "lake"))
        services.start("tier")

        def illnesses() -> dict[str, str]:
            return {name: ill for name in services.names if (ill := services.illness(name))}

        def all_there() -> bool:
            there = {"my.t", "pg.t"} & set(lake.tables())
            counts = [lake.table(name).scan().to_arrow().num_rows for name in there]
            return counts == [shop.rows] * 2 and logged.scan().to_arrow().num_rows == written

        for _ in range(6):
            shop.put()
            assert write()
        until(lambda: not illnesses() and all_there(), lambda: (illnesses(), services.ended()))

        fill(disk)
        ill: dict[str, str] = {}
        end = time.monotonic() + SECONDS
        while not {"my", "pg", "tier"} <= ill.keys():
            assert time.monotonic() < end, ill
            shop.put()
            write()
            fill(disk)
            ill |= {name: words for name, words in illnesses().items() if FULL in words}
            assert logged.scan().to_arrow().num_rows == written  # readers need no space
            time.sleep(0.5)
        assert services.ended() == {}

        (disk / "filler").unlink()
        until(write, lambda: "the writer")
        shop.put()
        until(lambda: not illnesses() and all_there(), lambda: (illnesses(), services.ended()))
        assert {name: services.stop(name) for name in services.names} == dict.fromkeys(
            services.names, ExitCode.INTERRUPTED
        )
    for name in ("my.t", "pg.t", "d.log"):
        table = lake.table(name)
        assert table.check() == []
    assert not [*(disk / "lake").rglob(".*.tmp")], "no file is half written"


@pytest.fixture(params=["moved", "unmounted"])
def hide(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[bool], None]]:
    """Takes the lake `<tmp_path>/lake` away, or brings it back: by another name for its directory, or by a
    mount, which leaves an empty one."""
    place, aside = tmp_path / "lake", tmp_path / "aside"
    if request.param == "moved":
        place.mkdir()
        yield lambda away: place.rename(aside) if away else aside.rename(place)
        return
    for each in (place, aside):
        each.mkdir()

    def mount(away: bool) -> None:
        command = ["umount", "-l", str(place)] if away else ["mount", "--bind", str(aside), str(place)]
        subprocess.run(command, check=True, capture_output=True)

    try:
        mount(False)
    except (OSError, subprocess.CalledProcessError) as e:
        pytest.skip(f"nothing can be mounted here: {e}")
    yield mount
    subprocess.run(["umount", "-l", str(place)], check=False, capture_output=True)


def test_captures_wait_for_a_lake_that_is_away_and_never_begin_anew(
    tmp_path: Path, hide: Callable[[bool], None]
) -> None:
    pytest.importorskip("prometheus_client")
    counterparts.need("PostgreSQL")
    place = tmp_path / "lake"
    lake = ts.connect(place)
    with servers.mariadb(servers.FAST) as mariadb, Postgres() as postgres, Services(trusted="") as services:
        shop = Shop(mariadb, postgres)
        for name, server in (("my", mariadb), ("pg", postgres)):
            source = ("--from", f"{server.url}/shop", "--password-file", str(server.password_file))
            where = ("--warehouse", str(place), "--into", name, "--engine", "local")
            services.add(name, "tablestore.cli", "cdc", *source, *where)
            services.start(name)

        def illnesses() -> dict[str, str]:
            return {name: ill for name in services.names if (ill := services.illness(name))}

        def all_there() -> bool:
            there = {"my.t", "pg.t"} & set(lake.tables())
            return [lake.table(name).scan().to_arrow().num_rows for name in there] == [shop.rows] * 2

        shop.put()
        until(lambda: not illnesses() and all_there(), lambda: (illnesses(), services.ended()))
        hide(True)
        shop.put()
        until(
            lambda: all(str(place) in ill for ill in illnesses().values()) and len(illnesses()) == 2,
            lambda: (illnesses(), services.ended()),
        )
        mariadb.run("CREATE TABLE shop.u (k INT PRIMARY KEY)")
        shop.put()
        assert services.ended() == {}
        assert not place.exists() or not [*place.iterdir()], "nothing is begun anew there"
        hide(False)
        until(lambda: not illnesses() and all_there(), lambda: (illnesses(), services.ended()))
        until(lambda: "my.u" in lake.tables(), lambda: illnesses())
        assert {name: services.stop(name) for name in services.names} == dict.fromkeys(
            services.names, ExitCode.INTERRUPTED
        )
