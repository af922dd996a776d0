"""Calls of pyfluss, run by its own Python: the address is the argument, the password comes by the input.
Prints what each call gave, {"error": number, "text": …} where it was refused."""

import asyncio
import json
import sys

import fluss
import pyarrow as pa

LOG, KEYED = fluss.TablePath("shop", "log"), fluss.TablePath("shop", "keyed")
SECONDS = 120


async def result(call):
    try:
        return await asyncio.wait_for(call, SECONDS)
    except fluss.FlussError as e:
        return {"error": e.error_code, "text": str(e)}


async def connected(address, password):
    config = fluss.Config({"bootstrap.servers": address, "security.protocol": "sasl"})
    config.security_sasl_mechanism = "PLAIN"
    config.security_sasl_username, config.security_sasl_password = "any", password
    return await fluss.FlussConnection.create(config)


async def metadata(admin, said):
    nowhere = fluss.TablePath("shop", "nowhere")
    said["databases"] = await result(admin.list_databases())
    said["tables"] = await result(admin.list_tables("shop"))
    said["table exists"] = [await result(admin.table_exists(path)) for path in (LOG, nowhere)]
    said["database"] = (await result(admin.get_database_info("shop"))).database_name
    said["no database"] = await result(admin.get_database_info("nowhere"))
    info = await result(admin.get_table_info(KEYED))
    said["keys"], said["buckets"] = info.get_primary_keys(), info.num_buckets
    said["no table"] = await result(admin.get_table_info(nowhere))
    said["ends"] = sorted((await result(admin.list_offsets(LOG, [0, 1], fluss.OffsetSpec.latest()))).items())
    said["partitions"] = await result(admin.list_partition_infos(LOG))
    lake = await result(admin.get_latest_lake_snapshot(KEYED))
    said["lake"] = lake.snapshot_id
    said["no lake"] = await result(admin.get_latest_lake_snapshot(LOG))


async def definitions(admin, said):
    schema = fluss.Schema(pa.schema([("id", pa.int64())]))
    said["create database"] = await result(admin.create_database("more"))
    said["drop database"] = await result(admin.drop_database("shop"))
    said["create table"] = await result(
        admin.create_table(fluss.TablePath("shop", "more"), fluss.TableDescriptor(schema))
    )
    said["drop table"] = await result(admin.drop_table(LOG))


async def rows(connection, said):
    log, keyed = await connection.get_table(LOG), await connection.get_table(KEYED)
    appender = log.new_append().create_writer()
    for n in range(100, 120):
        appender.append({"id": n, "text": f"row {n}"})
    appender.write_arrow(pa.table({"id": range(120, 1120), "text": ["arrow"] * 1000}))
    long = [f"{n:0500d}" for n in range(1120, 11120)]
    appender.write_arrow(pa.table({"id": range(1120, 11120), "text": long}))
    said["flush of rows"] = await result(appender.flush())
    upserts = keyed.new_upsert().create_writer()
    for n in range(10):
        upserts.upsert({"id": n, "text": f"new {n}"})
    upserts.delete({"id": 3})
    upserts.delete({"id": 77})
    upserts.upsert({"id": 4, "text": None})
    said["flush of keys"] = await result(upserts.flush())
    last = appender.append({"id": 50000, "text": "last"})
    said["wait"] = await result(last.wait())
    said["lookup"] = await result(keyed.new_lookup().create_lookuper().lookup({"id": 1}))
    scanner = await log.new_scan().project([0]).create_record_batch_log_scanner()
    scanner.subscribe_buckets({0: 0, 1: 0})
    said["ids"] = sorted((await scanner.to_arrow())["id"].to_pylist())


async def main(address):
    said, password = {}, sys.stdin.read()
    said["wrong password"] = await result(connected(address, "wrong"))
    connection = await connected(address, password)
    admin = connection.get_admin()
    await metadata(admin, said)
    await definitions(admin, said)
    await rows(connection, said)
    print(json.dumps(said))


asyncio.run(main(sys.argv[1]))
