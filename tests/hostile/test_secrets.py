"""Secrets: none is stored among a table's options, none is shown."""

from __future__ import annotations

import json
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.catalog.metastore import Metastore
from tablestore.catalog.options import CatalogOptions
from tablestore.catalog.sql import server_of
from tablestore.core.errors import InvalidOption, InvalidRequest, TablestoreError
from tablestore.core.options.rules import names
from tablestore.core.options.secrets import is_secret, scrubbed
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.s3_options import S3Options

SECRET = "hunter2"
NAMES = (
    "s3.secret-key",
    "s3.access-key",
    "fs.s3a.session.token",
    "fs.oss.accessKeySecret",
    "fs.azure.account.key.mine",
    "jdbc.password",
    "my.api-key",
    "dlf.token",
    "s3.sse-c.key",
    "s3.accesskey",
    "s3.sse.customer-key-base64",
    "fs.s3a.server-side-encryption.key",
    "fs.s3a.encryption.key",
    "fs.cosn.userinfo.secretId",
    "fs.obs.access.key",
    "azure.connection-string",
    "http.headers.Authorization",
)
OF_KAFKA = (  # by the names of Java's clients, librdkafka and Flink's formats
    "kafka.sasl.jaas.config",
    "kafka.sasl.password",
    "kafka.sasl.oauthbearer.client.secret",
    "kafka.sasl.oauthbearer.assertion.private.key.pem",
    "kafka.sasl.oauthbearer.assertion.private.key.passphrase",
    "kafka.ssl.key.password",
    "kafka.ssl.key.pem",
    "kafka.ssl_key",
    "kafka.ssl.keystore.key",
    "kafka.ssl.keystore.password",
    "kafka.ssl.truststore.password",
    "kafka.bearer.auth.token",
    "kafka.basic.auth.user.info",
    "debezium-avro-confluent.basic-auth.user-info",
    "debezium-avro-confluent.ssl.keystore.password",
)
PLAIN = (
    *("primary-key", "bucket-key", "key.format", "key.fields", "catalog-key", "value.fields-include"),
    *("kafka.ssl.ca.location", "kafka.ssl.key.location", "kafka.ssl.certificate.pem", "kafka.sasl.username"),
    *("kafka.ssl.keystore.certificate.chain", "kafka.ssl.truststore.location", "kafka.sasl.mechanism"),
    *("kafka.key.serializer", "kafka.client.id", "kafka.transactional.id", "debezium-avro-confluent.url"),
    *("scan.incremental.snapshot.chunk.key-column", "s3.endpoint", "s3.sse.type", "s3.path.style.access"),
)


def keyed(lake: ts.Lake, **options: Any) -> ts.Table:
    return lake.create_table("d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options=options)


@pytest.mark.parametrize("key", NAMES)
def test_a_secret_is_refused_with_the_place_where_it_belongs(tmp_path: Path, key: str) -> None:
    lake = ts.connect(tmp_path / "lake")
    with pytest.raises(InvalidOption, match=r"holds a secret.*connect\(…\)") as refused:
        keyed(lake, **{key: SECRET})
    assert SECRET not in str(refused.value)
    t = keyed(lake)
    with pytest.raises(InvalidOption, match="holds a secret"):
        t.alter(ts.set_options({key: SECRET}))
    with pytest.raises(InvalidOption, match="holds a secret"):
        t.with_options({key: SECRET})
    with pytest.raises(InvalidOption, match="holds a secret"):
        keyed(ts.connect({"warehouse": tmp_path / "other", f"table-default.{key}": SECRET}))
    assert not any(SECRET in p.read_text() for p in tmp_path.rglob("schema-*"))


@pytest.mark.parametrize("key", OF_KAFKA)
def test_a_secret_of_kafka_is_stored_by_the_name_of_a_variable(tmp_path: Path, key: str) -> None:
    lake = ts.connect(tmp_path / "lake")
    for typed in (SECRET, f"${{env:KEY}}{SECRET}", f"{SECRET}}}", f"${{env:A}}:{SECRET}:${{env:B}}"):
        with pytest.raises(InvalidOption, match=r"holds a secret.*\$\{env:NAME\}") as refused:
            keyed(lake, **{key: typed})
        assert SECRET not in str(refused.value)
    t = keyed(lake, **{key: "${env:KEY}"})
    assert t.options[key] == "${env:KEY}"
    with pytest.raises(InvalidOption, match="holds a secret"):
        t.alter(ts.set_options({key: SECRET}))
    assert not any(SECRET in p.read_text() for p in tmp_path.rglob("schema-*"))


def test_a_database_stores_no_secret(tmp_path: Path) -> None:
    lake = ts.connect(tmp_path / "lake", metastore="jdbc", uri=f"sqlite:{tmp_path}/c.sqlite")
    with pytest.raises(InvalidOption, match="a database's options can be read"):
        lake.create_database("d", properties={"jdbc.password": SECRET})
    lake.create_database("d", properties={"owner": "ann"})
    with pytest.raises(InvalidOption, match="holds a secret"):
        lake.alter_database("d", {"upstream": f"mysql://me:{SECRET}@host/db"})
    lake.alter_database("d", {"jdbc.password": None})
    assert SECRET.encode() not in (tmp_path / "c.sqlite").read_bytes()


def test_addresses_with_passwords_are_secrets(tmp_path: Path) -> None:
    for value in (f"jdbc:mysql://me:{SECRET}@host/db", f"jdbc:mysql://host/db?user=me&password={SECRET}"):
        with pytest.raises(InvalidOption, match="holds a secret"):
            keyed(ts.connect(tmp_path / "lake"), **{"my.uri": value})
        assert SECRET not in scrubbed(value)
    for value in (
        f"pg://me:a/b{SECRET}@host/db",
        f"pg://h?sslpassword={SECRET}",
        f"AccountName=a;AccountKey={SECRET}==",
    ):
        assert SECRET not in scrubbed(value)
    for value in (f"me:{SECRET}@h:9123", f"a:1,me:p@/{SECRET}@[::1]:9092,b:2", f"x 'me:{SECRET}@h:1'"):
        with pytest.raises(InvalidOption, match="holds a secret") as refused:
            keyed(ts.connect(tmp_path / "lake"), **{"tablestore.fluss.bootstrap.servers": value})
        assert SECRET not in scrubbed(value) + str(refused.value)
    assert scrubbed(f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END") == "***"
    for plain in ("s3://bucket/a:b@c", "http://host:8081/a@b", "thrift://a:1,thrift://b:2", "key=a,value=b"):
        assert scrubbed(plain) == plain
    for plain in ("me@h:9123", "a:1,b:2", "%2Fmy%2Flake@127.0.0.1:5", "http://h:80/a@b:1", "12:30 a@b"):
        assert scrubbed(plain) == plain


def test_no_known_option_and_no_column_is_taken_for_a_secret(tmp_path: Path) -> None:
    listed = Path(__file__).parents[1] / "golden" / "options" / "paimon-options.tsv"
    paimons = [line.partition("\t")[0] for line in listed.read_text().splitlines()]
    taken = {name for name in (*names(), *paimons, *PLAIN) if is_secret(name)}
    assert taken == {"debezium-avro-confluent.basic-auth.user-info"}
    t = keyed(ts.connect(tmp_path / "lake"), **{"merge-engine": "aggregation"})
    t = t.alter(ts.add("token", ts.STRING))
    t.alter(ts.set_options({"fields.token.aggregate-function": "last_value"}))


def test_what_another_engine_stored_is_not_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lake = ts.connect(tmp_path / "lake")
    t = keyed(lake)
    t.write({"k": [1]})
    path = Path(t.store.paths.schema(0))
    stored = json.loads(path.read_text())
    stored["options"] |= {"fs.oss.accessKeySecret": SECRET, "their.uri": f"jdbc:mysql://me:{SECRET}@host/db"}
    path.write_text(json.dumps(stored))
    t = lake.table("d.t")
    shown = [
        repr(t),
        repr(t.store),
        repr(t.store.schema),
        str(t.options),
        str(t.options.describe(set_only=True)),
    ]
    shown += [str(t.inspect.options().to_pylist()), str(t.inspect.schemas().to_pylist())]
    shown += [str(lake.table(f"d.t${name}").scan().to_arrow().to_pylist()) for name in ("options", "schemas")]
    shown += [str(lake.table("sys.all_table_options").scan().to_arrow().to_pylist())]
    shown += [str(t.check()), repr(t.scan()), str(t.scan().explain()), str(t.inspect.doctor()), repr(lake)]
    t.alter(ts.set_options({"num-levels": 4})).write({"k": [2]})
    assert [text for text in shown if SECRET in text] == []
    assert t.options["fs.oss.accessKeySecret"] == "***"
    assert SECRET not in caplog.text
    assert json.loads(Path(t.store.paths.schema(1)).read_text())["options"]["their.uri"].endswith("@host/db")
    assert SECRET in Path(t.store.paths.schema(1)).read_text()  # it is theirs, and stays


def test_catalogs_and_stores_show_none(tmp_path: Path) -> None:
    given = {"s3.access-key": SECRET, "s3.secret-key": SECRET, "s3.endpoint": "http://127.0.0.1:1"}
    uri = f"sqlite:{tmp_path}/c.sqlite"
    lake = ts.connect(tmp_path / "lake", metastore="jdbc", uri=uri, **{"jdbc.password": SECRET}, **given)
    t = keyed(lake)
    server = server_of(f"jdbc:postgresql://me:{SECRET}@127.0.0.1:1/db?connect_timeout=1")
    options = CatalogOptions.parse({"metastore": "jdbc", "uri": f"postgresql://me:{SECRET}@h/db", **given})
    shown = [repr(each) for each in (lake, lake._catalog, t, t.store, t.store.io, server, options)]
    shown += [repr(ObjectStoreFileIO(S3Options.parse(given)))]
    with pytest.raises(TablestoreError) as refused, server.session():
        pass
    shown += [str(refused.value)]
    with pytest.raises(InvalidOption) as refused_uri:
        Metastore.parse(f"http://me:{SECRET}@host")
    shown += [str(refused_uri.value)]
    for address in (f"s3://key:{SECRET}@bucket/lake", f"s3a://{SECRET}@bucket"):
        with pytest.raises(InvalidRequest) as refused_place:
            ts.connect(address)
        shown += [str(refused_place.value)]
    for wrong in (f"postgresql://me:{SECRET}]@h/db", f"postgresql://h/db?sslpassword={SECRET}"):
        with pytest.raises(InvalidOption) as refused_uri:
            server_of(wrong)
        shown += [str(refused_uri.value)]
    shown += [str(pickle.dumps(each)) for each in (options, server, t.store)]
    assert [text for text in shown if SECRET in text] == []
