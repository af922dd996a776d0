"""A real Fluss that requires its clients to sign in."""

from __future__ import annotations

import io
import logging
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.fluss.admin import Admin
from tablestore.fluss.cluster import Cluster
from tablestore.fluss.errors import FlussError
from tablestore.fluss.sign_in import PASSWORD_VARIABLE
from tablestore.fluss.write import TableWriter
from tablestore.format.types.arrow_types import BIGINT, STRING
from tests.servers.fluss import LAKE, fluss_cluster

USERS = {"admin": "adm1n-Geheim", "reader": "l3ser-Geheim"}


def test_a_cluster_that_requires_it_is_signed_in_to_and_the_password_stays_out_of_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger().addHandler(handler)
    monkeypatch.setattr(logging.getLogger("tablestore"), "level", logging.DEBUG)
    monkeypatch.setenv(PASSWORD_VARIABLE, USERS["admin"])
    with fluss_cluster(users=USERS) as fluss:
        table = fluss.table({"id": BIGINT, "text": STRING}, properties=LAKE)
        TableWriter(fluss.cluster, table).append(pa.table({"id": range(5), "text": ["a"] * 5}))
        with Cluster(fluss.address) as nobody, pytest.raises(FlussError, match=PASSWORD_VARIABLE) as e:
            Admin(nobody).databases()
        assert e.value.name == "AUTHENTICATE"
        monkeypatch.setenv(PASSWORD_VARIABLE, "wrong-Geheim")
        with Cluster(f"reader@{fluss.address}") as wrong, pytest.raises(FlussError) as e:
            Admin(wrong).databases()
        assert str(e.value).startswith(f"{wrong}: Fluss error 46 AUTHENTICATE: ")
        monkeypatch.setenv(PASSWORD_VARIABLE, USERS["reader"])
        lake = ts.connect(tmp_path)
        with pytest.raises(FlussError, match=r"fluss://admin@.*Fluss error 46 AUTHENTICATE"):
            lake.tier(f"fluss://admin@{fluss.address}", follow=False)
        service = lake.tier(f"fluss://reader@{fluss.address}", tables=str(table.path), follow=False)
        assert service.wait(240)
        actual = lake.table(str(table.path))
        assert actual.scan().to_arrow()["id"].to_pylist() == list(range(5))
        TableWriter(fluss.cluster, table).append(pa.table({"id": [5], "text": ["b"]}))
        assert actual.scan(log=True).count() == 6  # by the address that the lake table keeps
        shown = repr((service, actual, fluss.cluster)) + repr(actual.options) + str(service.report())
        logged = said.getvalue()
    logging.getLogger().removeHandler(handler)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    for secret in (*USERS.values(), "wrong-Geheim"):
        assert secret not in shown + logged
        assert secret.encode() not in kept
