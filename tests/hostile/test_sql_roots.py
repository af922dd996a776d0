"""Statements of a confined session, door by door, with paths outside of its roots: one named error where a
statement names one, and nothing outside is opened, listed, made or changed."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from notebooks.demo import sql_connectors
from notebooks.demo.tpch_connector import CONNECTOR as TPCH
from tablestore.core.errors import OutsideRoots, TablestoreError
from tablestore.core.options.rules import names
from tablestore.io.confined import Roots
from tablestore.log.kafka.cluster import BrokerCluster, names_file
from tablestore.sql import Session
from tablestore.sql.connectors.connector import ConnectorOptions
from tablestore.sql.connectors.registry import CONNECTORS
from tablestore.sql.forms import FORMS
from tablestore.sql.settings import SETTINGS
from tablestore.sql.statements.call import PROCEDURES
from tests.sql.query.test_locked_down import STATEMENTS

_CONTENT = "8\n"
_HOME: list[str] = []  # the directory that is watched, if any
_TOUCHED: list[str] = []
KAFKA_FILES = (  # librdkafka's properties that name a file
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"),
    *("ssl.crl.location", "https.ca.location", "ssl.engine.location", "sasl.kerberos.keytab"),
    *("sasl.kerberos.kinit.cmd", "plugin.library.paths", "offset.store.path"),
    *("sasl.oauthbearer.assertion.jwt.template.file", "sasl.oauthbearer.assertion.private.key.file"),
)
# What connectors need before they come to a path.
NEEDED = {
    "filesystem": {"path": "{inside}", "format": "csv"},
    "kafka": {"topic": "t", "properties.bootstrap.servers": "127.0.0.1:1", "format": "json"},
    "mysql-cdc": {
        **{"hostname": "127.0.0.1", "port": "1", "username": "u", "database-name": "d", "table-name": "t"},
        "connect.timeout": "1 s",
    },
    "postgres-cdc": {
        **{"hostname": "127.0.0.1", "port": "1", "username": "u", "database-name": "d", "table-name": "t"},
        **{"schema-name": "s", "slot.name": "s", "connect.timeout": "1 s"},
    },
    "tpch-cdc": {"pace": "manual"},
}
# Every option of a connector whose value is a path.
PATHS = [
    ("filesystem", "path"),
    ("mysql-cdc", "tablestore.password-file"),
    ("mysql-cdc", "tablestore.tls-ca"),
    ("postgres-cdc", "tablestore.password-file"),
    ("postgres-cdc", "tablestore.tls-ca"),
    ("tpch-cdc", "path"),
    *(("kafka", f"properties.{name}") for name in KAFKA_FILES),
]


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """Note what Python opens, lists or changes below the watched directory; looking where a link leads is no
    opening."""
    if _HOME and (event == "open" or event.startswith(("os.", "shutil.", "sqlite3."))):
        _TOUCHED.extend(f"{event} {a}" for a in arguments if isinstance(a, str) and a.startswith(_HOME[0]))


sys.addaudithook(_note)  # one cannot be taken away: it does nothing while no directory is watched


class Places:
    """A lake, a root and, beside them, what is out of reach: a file, a table, an empty directory."""

    def __init__(self, home: Path) -> None:
        self.lake, self.root, self.outside = home / "lake", home / "root", home / "outside"
        self.root.mkdir()
        (self.root / "a.csv").write_text("1\n")
        (self.outside / "empty").mkdir(parents=True)
        (self.outside / "a.csv").write_text(_CONTENT)
        ts.connect(self.outside / "warehouse").create_table("d.t", schema={"k": ts.INT}).write({"k": [8]})
        (self.root / "to_outside").symlink_to(self.outside)
        (self.root / "to_file.csv").symlink_to(self.outside / "a.csv")
        (self.root / "to_link").symlink_to(self.root / "to_outside")
        (self.root / "below").mkdir()
        (home / "root-of-others").symlink_to(self.outside)
        self.before = self.state()

    def state(self) -> list[tuple[str, int, int]]:
        """Each file outside with its size and the time of its last change."""
        actual = sorted(self.outside.rglob("*"))
        return [(str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in actual]

    @property
    def forms(self) -> list[str]:
        """The file outside, and its directory, as they can be written."""
        there, root = self.outside, self.root
        dots = "/".join([".."] * len(Path.cwd().parts))
        return [
            *(f"{there}", f"{there}/a.csv", f"{there}/", f"{there}//a.csv", f"{there}/./a.csv", f"{there}/*"),
            *(f"file:{there}", f"file://{there}/a.csv", f"file://localhost{there}/a.csv"),
            *(f"{root}/../outside", f"{root}/below/../../outside/a.csv", f"file:{root}/%2e%2e/outside"),
            *(
                f"{root}/to_outside",
                f"{root}/to_outside/a.csv",
                f"{root}/to_file.csv",
                f"{root}/to_link/a.csv",
            ),
            *(f"{root}-of-others", f"{root}-of-others/a.csv", f"/proc/self/root{there}/a.csv"),
            *(f"{dots}{there}/a.csv", f"{root}/to_outside/new/part", "/", "~", "s3://bucket/a", "s3a://b/a"),
        ]


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    """The places; at the end, what is outside is as it was, and nobody looked at it."""
    actual = Places(tmp_path)
    lake = ts.connect(actual.lake)
    lake.create_table("shop.orders", schema={"k": ts.INT}, primary_key=["k"]).write({"k": [1]})
    _HOME[:], _TOUCHED[:] = [str(actual.outside)], []
    try:
        yield actual
    finally:
        _HOME.clear()
    assert [what for what in _TOUCHED if not what.startswith(("os.stat", "os.lstat"))] == []
    assert actual.state() == actual.before


@pytest.fixture
def session(places: Places) -> Session:
    return ts.sql_session(ts.connect(places.lake), roots=[places.root])


def made(session: Session, connector: str, options: dict[str, str], columns: str = "(k INT)") -> None:
    session.sql("DROP TEMPORARY TABLE IF EXISTS `default`.f")
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in {"connector": connector, **options}.items())
    session.sql(f"CREATE TEMPORARY TABLE `default`.f {columns} WITH ({listed})")


USES: dict[str, Callable[[Session], Any]] = {
    "read": lambda s: s.sql("SELECT * FROM f").to_arrow(),
    "insert": lambda s: s.sql("INSERT INTO f VALUES (1)"),
    "explain": lambda s: s.sql("EXPLAIN SELECT * FROM f").to_arrow(),
    "join": lambda s: s.sql("SELECT * FROM shop.orders AS o JOIN f ON f.k = o.k").to_arrow(),
    "merge": lambda s: s.sql(
        "MERGE INTO shop.orders AS t USING f AS s ON t.k = s.k WHEN NOT MATCHED THEN INSERT *"
    ),
    "create as": lambda s: s.sql("CREATE TABLE shop.copied AS SELECT * FROM f"),
    "view": lambda s: list(s.script("CREATE TEMPORARY VIEW v AS SELECT * FROM f; SELECT * FROM v")),
}


def in_streams(text: str) -> Callable[[Session], Any]:
    """A use of the table in streaming mode."""
    return lambda s: list(s.script(f"SET 'execution.runtime-mode' = 'streaming'; {text}"))


USES |= {
    "follow": in_streams("SELECT * FROM f"),
    "job from": in_streams("INSERT INTO shop.orders SELECT k FROM f"),
    "job into": in_streams("INSERT INTO f SELECT k FROM shop.orders"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("use", USES)
def test_no_form_of_a_path_leads_outside(places: Places, session: Session, use: str) -> None:
    for path in places.forms:
        session.sql("SET 'execution.runtime-mode' = 'batch'")
        session.sql("DROP TEMPORARY VIEW IF EXISTS v")
        made(session, "filesystem", {"format": "csv", "path": path})
        with pytest.raises(OutsideRoots, match="option 'path' names") as refused:
            USES[use](session)
        assert path in str(refused.value)


def test_a_hint_leads_nowhere_else(places: Places, session: Session) -> None:
    made(session, "filesystem", {"format": "csv", "path": str(places.root / "a.csv")})
    assert session.sql("SELECT * FROM f").to_arrow().to_pylist() == [{"k": 1}]
    for path in places.forms:
        hint = f"/*+ OPTIONS('path' = '{path}') */"
        for text in (f"SELECT * FROM f {hint}", f"INSERT INTO f {hint} VALUES (1)"):
            with pytest.raises(OutsideRoots, match="option 'path' names"):
                session.sql(text).to_arrow()


@pytest.mark.sample(6)
@pytest.mark.parametrize(("connector", "option"), PATHS)
def test_no_option_of_a_connector_leads_outside(
    places: Places, session: Session, connector: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql_connectors.provide()
    needed = {k: v.replace("{inside}", str(places.root)) for k, v in NEEDED[connector].items()}
    columns = "" if connector == "tpch-cdc" else "(k INT)"
    for path in (str(places.outside / "a.csv"), str(places.root / "to_file.csv"), "${env:HOME}"):
        made(session, connector, {**needed, option: path}, columns or "(l_orderkey BIGINT)")
        for mode in ("batch", "streaming"):
            session.sql(f"SET 'execution.runtime-mode' = '{mode}'")
            with pytest.raises(OutsideRoots, match=f"option '{option}' names"):
                session.sql("SELECT * FROM f").head(1)
        session.sql("SET 'execution.runtime-mode' = 'batch'")


def test_every_option_that_is_a_path_is_among_these() -> None:
    """Of an option that a text or a default calls a file or a directory, it is known that it names one."""
    named = {(c.name, o.key) for c in (*CONNECTORS.values(), TPCH) for o in c.options if o.place(o.key)}
    assert named == {pair for pair in PATHS if not pair[1].startswith("properties.")}
    words = ("file", "directory", "path", "location", "dir", "folder")
    likely = {
        (c.name, o.key)
        for c in (*CONNECTORS.values(), TPCH)
        for o in c.options
        if not o.refused and any(word in o.key.replace("-", ".").split(".") for word in words)
    }
    assert likely - named == {("mysql-cdc", "scan.startup.specific-offset.file")}  # the server's
    assert all(names_file(f"properties.{name}") for name in KAFKA_FILES)


@pytest.mark.parametrize("connector", sorted(CONNECTORS))
def test_no_connector_gives_a_variable_of_the_environment_away(
    session: Session, connector: str, places: Places
) -> None:
    needed = {k: v.replace("{inside}", str(places.root)) for k, v in NEEDED.get(connector, {}).items()}
    keys = [o.key.replace("#", "k").replace("*", "x") for o in CONNECTORS[connector].options if not o.refused]
    for key in keys:
        made(session, connector, {**needed, key: "${env:HOME}"})
        with pytest.raises(OutsideRoots, match="names an environment variable"):
            session.sql("SELECT * FROM f").to_arrow()


def test_a_catalog_lies_inside(places: Places, session: Session) -> None:
    outside, root = places.outside, places.root
    for number, path in enumerate(places.forms):
        with pytest.raises(OutsideRoots, match="option 'warehouse' names"):
            session.sql(f"CREATE CATALOG c{number} WITH ('warehouse' = '{path}')")
    more = [
        ("'metastore' = 'jdbc'", f"'uri' = 'sqlite:{outside}/c.sqlite'"),
        ("'metastore' = 'jdbc'", f"'uri' = 'jdbc:sqlite://{root}/to_outside/c.sqlite'"),
        ("'metastore' = 'jdbc'", "'uri' = 'postgresql://127.0.0.1:1/db?sslkey=/etc/hosts'"),
        ("'metastore' = 'hive'", "'uri' = 'thrift://127.0.0.1:1'"),
        ("'type' = 'paimon'", f"'table-default.kafka.ssl.ca.location' = '{outside}/a.csv'"),
        ("'type' = 'paimon'", "'table-default.kafka.client.id' = '${env:HOME}'"),
    ]
    for options in more:
        with pytest.raises(OutsideRoots):
            session.sql(f"CREATE CATALOG c WITH ('warehouse' = '{root}/new', {', '.join(options)})")
    assert not (root / "new").exists()
    for kind in ("filesystem", "jdbc"):
        session.sql(f"CREATE CATALOG {kind} WITH ('warehouse' = '{root}/{kind} 1', 'metastore' = '{kind}')")
        session.sql(f"CREATE TABLE {kind}.`default`.t (k INT); INSERT INTO {kind}.`default`.t VALUES (1)")
    uri = f"sqlite:{root}/below/c.sqlite"
    session.sql(f"CREATE CATALOG o WITH ('warehouse' = '{root}/o', 'metastore' = 'jdbc', 'uri' = '{uri}')")


@pytest.mark.large
def test_no_option_of_a_table_leads_outside(places: Places, session: Session) -> None:
    """Every option that there is with a path outside: what is taken reaches nothing there."""
    path = f"{places.outside}/empty"
    for number, name in enumerate(sorted({*names(), "kafka.debug", "kafka.log_level"})):
        for text in (
            f"CREATE TABLE shop.t{number} (k INT PRIMARY KEY NOT ENFORCED) WITH ('{name}' = '{path}')",
            f"SELECT * FROM shop.orders /*+ OPTIONS('{name}' = '{path}') */",
            f"SELECT * FROM shop.orders$files /*+ OPTIONS('{name}' = '{path}') */",
        ):
            try:
                session.sql(text).to_arrow()
            except TablestoreError:
                continue
            if text.startswith("CREATE"):
                with contextlib.suppress(TablestoreError):
                    session.sql(f"INSERT INTO shop.t{number} VALUES (1)")
                session.sql(f"DROP TABLE shop.t{number}")


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["path", *(f"kafka.{name}" for name in KAFKA_FILES)])
def test_a_table_takes_no_path_outside_by_any_statement(places: Places, session: Session, name: str) -> None:
    pair = f"'{name}' = '{places.root}/to_file.csv'"
    old = name.replace("kafka.", "table-storage.log.properties.")
    session.sql("CREATE TABLE shop.p (k INT, d INT) PARTITIONED BY (d)")
    for text in (
        f"CREATE TABLE shop.t (k INT) WITH ({pair})",
        f"CREATE TABLE shop.t (k INT) WITH ('{old}' = '{places.outside}/a.csv')",
        f"CREATE TABLE shop.t WITH ({pair}) LIKE shop.orders",
        f"CREATE TABLE shop.t WITH ({pair}) AS SELECT 1 AS k",
        f"ALTER TABLE shop.orders SET ({pair})",
        f"ALTER TABLE shop.p PARTITION (d = 1) SET ({pair})",
        f"SELECT * FROM shop.orders /*+ OPTIONS({pair}) */",
        f"SELECT * FROM shop.orders$ro /*+ OPTIONS({pair}) */",
        f"SELECT * FROM shop.orders$files /*+ OPTIONS({pair}) */",
        f"INSERT INTO shop.orders /*+ OPTIONS({pair}) */ VALUES (2)",
        f"SET 'table-storage.{name}' = '{places.outside}/a.csv'",
        f"CALL sys.compact(`table` => 'shop.orders', options => '{name}={places.outside}/a.csv')",
        f"CALL sys.compact_database(table_options => '{name}={places.outside}/a.csv')",
    ):
        with pytest.raises(OutsideRoots, match="this session is confined"):
            session.sql(text).to_arrow()


def test_no_argument_of_a_procedure_leads_outside(places: Places, session: Session) -> None:
    for name, procedure in PROCEDURES.items():
        for argument in procedure.arguments:
            for path in (f"{places.outside}/warehouse/d.db/t", f"{places.root}/to_outside/empty"):
                given = {"table": "'shop.orders'"} if procedure.arguments[0].name == "table" else {}
                given[argument.name] = f"'{path}'"
                listed = ", ".join(f"`{key}` => {value}" for key, value in given.items())
                try:
                    session.sql(f"CALL sys.{name}({listed})").to_arrow()
                except TablestoreError:
                    continue


def test_no_setting_leads_outside(places: Places, session: Session) -> None:
    for setting in SETTINGS:
        for path in places.forms:
            try:
                session.sql(f"SET '{setting}' = '{path}'")
            except TablestoreError:
                continue
            assert setting != "execution.checkpointing.dir", path
        session.sql(f"RESET '{setting}'")
    session.settings.set("execution.checkpointing.dir", str(places.root / "to_outside"))
    for text in ("SHOW JOBS", "STOP JOB 'j'", "DROP JOB 'j'"):
        with pytest.raises(OutsideRoots, match=r"setting 'execution\.checkpointing\.dir' names"):
            session.sql(text).to_arrow()


@pytest.mark.parametrize("words", sorted({form.words for form in FORMS}))
def test_no_statement_reads_a_path_as_a_name(places: Places, session: Session, words: str) -> None:
    """A statement of each kind with the file outside in place of all that it names."""
    for path in (f"{places.outside}/a.csv", f"file://{places.outside}/a.csv"):
        for tail in (f"'{path}'", f'"{path}"', f"`{path}`", f"TABLE `{path}`", f"* FROM parquet.`{path}`"):
            with contextlib.suppress(TablestoreError):  # or it is a name, and names nothing outside
                session.sql(f"{words} {tail}").head(1)


@pytest.mark.sample(8)
@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_engine_s_own_doors_are_shut(places: Places, session: Session, statement: str) -> None:
    for old in ("/etc/hosts", "/etc/*", "{tmp}/stolen.csv", "/tmp/x.db", "/tmp/x"):
        statement = statement.replace(old, f"{places.outside}/a.csv")
    with pytest.raises(TablestoreError):
        session.sql(statement).to_arrow()


def test_a_link_that_is_made_meanwhile_leads_nowhere(places: Places, session: Session) -> None:
    values = {"path": f"{places.root}/below/later", "format": "csv"}
    options = ConnectorOptions((), values, roots=session.roots)
    (places.root / "below").rmdir()
    watched, _HOME[:] = _HOME[0], []
    (places.root / "below").symlink_to(places.outside)
    _HOME.append(watched)
    source = CONNECTORS["filesystem"].source
    assert source is not None
    with pytest.raises(ts.TablestoreError, match="symbolic link"):
        list(source(options).batches(["k"]))


def test_what_is_inside_is_read_and_written(places: Places, session: Session) -> None:
    (places.root / "own").symlink_to(places.root / "below")
    made(session, "filesystem", {"format": "csv", "path": f"file:{places.root}/own/../own/new"})
    session.sql("INSERT INTO f VALUES (4)")
    assert session.sql("SELECT * FROM f").to_arrow().to_pylist() == [{"k": 4}]
    assert len(list((places.root / "below" / "new").iterdir())) == 1


def test_a_lake_for_others_is_confined_whoever_asks(places: Places) -> None:
    lake = ts.connect(places.lake, sql_roots=[])
    create = (
        f"CREATE TEMPORARY TABLE f (k INT) WITH ('connector' = 'filesystem', 'path' = '{places.root}/a.csv', "
        "'format' = 'csv'); SELECT * FROM f"
    )
    assert lake.sql("SELECT * FROM shop.orders").to_arrow().to_pylist() == [{"k": 1}]
    for run in (lake.sql, ts.sql_session(lake).sql):
        with pytest.raises(OutsideRoots, match="it has no roots"):
            run(create).to_arrow()
    assert ts.sql_session(lake, roots=[places.root]).sql(create).to_arrow().num_rows == 1
    assert ts.connect(places.lake).sql(create).to_arrow().num_rows == 1


def test_roots_are_directories_or_places_in_stores() -> None:
    roots = Roots.of(["s3://bucket/shared", "/"])
    assert roots.inside("s3a://bucket/shared/a", "it") == "s3a://bucket/shared/a"
    assert roots.inside("/etc", "it") == os.path.realpath("/etc")
    for other in ("s3://bucket/shared2", "s3://other/shared", "s3://bucket"):
        with pytest.raises(OutsideRoots):
            roots.inside(other, "it")
    with pytest.raises(ts.InvalidRequest, match="roots is a list"):
        ts.sql_session(roots="/data")


@pytest.mark.parametrize("name", [name for name in KAFKA_FILES if "plugin" in name or "cmd" in name])
def test_no_client_of_kafka_runs_what_a_table_names(name: str) -> None:
    with pytest.raises(ts.Unsupported, match=rf"property '{name}' of Kafka \(it"):
        BrokerCluster((("bootstrap.servers", "127.0.0.1:1"), (name, "/bin/true"))).admin()
