# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 16 · Change capture, watched
#
# A database of a shop goes into the lake while others write into it: first the rows that are there, then
# every change. **One idea: rows and the place in the log from which they are followed must come from the
# same look.** Without that, rows are lost at the seam, and nobody notices.
#
# A private MariaDB is started for this notebook and removed with it.
#
# The data are derived from TPC-H and not comparable to published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
race_seconds = 4
warehouse = None  # None: a temporary directory
solve = False

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
import time

import tablestore as ts
import widgets
from notebooks.demo import mariadb, source_checksums, tpch_database, watermark_race
from notebooks.demo.catch_up import catch_up
from tablestore.cdc.mysql.address import Address

course.need(mariadb.missing())  # what to install, where there is no MariaDB
server = mariadb.MariaDb(mariadb.DURABLE)


def address(database):
    return Address.parse(f"{server.url}/{database}", password_file=str(server.password_file))


print(server.run("SELECT @@version")[0][0], "on port", server.port)

# %% [markdown]
# ## The race
#
# To copy a table without a lock, a reader needs two things: its rows, and the position in the binlog from
# which to follow what changes. The textbook asks for the position first (`SHOW MASTER STATUS`) and then
# selects: what comes in between comes twice, and the newer image wins.

# %% jupyter={"source_hidden": true}
seam = course.task(
    "at the seam",
    "A reader asks where the binlog ends, then selects, then follows the log from there. What may be "
    "missing?",
    answer="committed",
    options={
        "nothing": "nothing, some rows come twice",
        "committed": "rows in the log that the SELECT did not see yet",
        "later": "rows that are written while it selects",
    },
    hint="What is written later is behind the position. What does a server do first at a commit: write its "
    "log, or let others see the rows?",
    why="A transaction is in the binlog before others see it: the position is behind it, the SELECT is not.",
)
seam

# %%
answer = None  # one of the options
seam.check(answer)

# %% [markdown]
# Two readers, four writers, a real server that syncs its log at each commit. Each writer notes the GTID the
# server gave its transaction: a row is lost if its transaction is at or before the position of a read that
# did not see it.

# %%
race = watermark_race.run(server, address(watermark_race.DATABASE), seconds=race_seconds)
print(race)
widgets.BarChart(race.to_arrow(), label="reader", value="rows_lost", title="Rows lost for ever")

# %%
worst = race.worst()
if worst is None:
    print("no row was lost this time: a fast disk, or an idle machine; run the cell above once more")
else:
    lost = race.lost(worst)
    print(f"the SELECT that followed {worst.position} has not seen the keys {sorted(lost)}")
    assert not lost & watermark_race.keys_in_log(address(watermark_race.DATABASE), worst)
    print("and the log from there on does not have them either")
ours = [read for read in race.reads if read.reader == watermark_race.OURS]
assert not any(race.lost(read) for read in ours), "the position of a read view is exact"

# %% [markdown]
# Ours opens a read view (`START TRANSACTION WITH CONSISTENT SNAPSHOT`) and asks *the view* for its position.
# No lock, and no row is lost.
#
# ## A whole database, while it changes
#
# Five tables of TPC-H are in the database `shop`. A writer inserts and deletes orders all the time, an order
# and its lines in one transaction. One call captures all of it.

# %%
tables = ("region", "nation", "customer", "orders", "lineitem")
rows = tpch_database.load(server.connect, scale_factor, tables=tables, database="shop")
writer = tpch_database.RefreshWriter(
    server.connect, scale_factor, pairs=10_000, seconds_a_pair=2, database="shop"
)
writer.start()

lake = ts.connect(course.warehouse(warehouse))
job = lake.ingest(
    f"{server.url}/shop",
    into="ods",
    password_file=str(server.password_file),
    interval="500ms",
    chunk_rows=8_000,
    chunks=4,
)
print(f"{rows:,} rows are there, and more come")

# %% [markdown]
# Each box below is a chunk: a range of keys, read in a view of its own. The bracket under boxes names the
# position from which their rows are followed. Point at one. *Pause* lets no batch begin, *Stop* ends the job
# between two batches; the same call would go on from there.

# %%
cockpit = widgets.CaptureProgress(job, title="shop → ods")
cockpit

# %%
catch_up(job, server)
assert cockpit.refresh().model.snapshotting == 0
print(cockpit)

# %% [markdown]
# ## Columns change
#
# Nobody tells the capture. It finds the statement in the log, ends a batch in front of it, and changes the
# table of the lake.

# %% jupyter={"source_hidden": true}
again = course.task(
    "read again",
    "`ALTER TABLE orders ADD COLUMN note VARCHAR(40)`: how many rows of `orders` does the capture read again "
    "from the database?",
    answer=0,
    hint="Which value have the rows that are there in the new column? Who needs to ask the database for it?",
    why="They are NULL in the new column, in the database and in the lake. Only the schema changes.",
)
again

# %%
answer = None  # a number
again.check(answer)


# %%
def rows_read():
    return sum(one.snapshot_rows for report in job.reports() for one in report.tables)


before = rows_read()
server.run("ALTER TABLE shop.orders ADD COLUMN note VARCHAR(40)")
server.run("UPDATE shop.orders SET note = 'gift' WHERE o_orderkey % 100 = 0")
catch_up(job, server)
assert rows_read() - before == again.answer.own
assert "note" in lake.table("ods.orders").schema.names
print(lake.table("ods.orders").scan(where="note = 'gift'").count(), "orders are gifts")

# %% [markdown]
# Tools like gh-ost change a large table without a lock: they fill a copy and swap the two names in one
# statement. For the lake it is one table all the time.

# %%
server.run(
    "CREATE TABLE shop._customer_gho LIKE shop.customer",
    "ALTER TABLE shop._customer_gho ADD COLUMN tier VARCHAR(10) NOT NULL DEFAULT 'basic'",
    "INSERT INTO shop._customer_gho SELECT *, IF(c_acctbal > 9000, 'gold', 'basic') FROM shop.customer",
    "RENAME TABLE shop.customer TO shop._customer_del, shop._customer_gho TO shop.customer",
)
catch_up(job, server)
print(lake.table("ods.customer").scan(where="tier = 'gold'").count(), "gold customers")
assert sorted(lake.tables()) == sorted(f"ods.{table}" for table in tables)

# %% [markdown]
# The values of `tier` came with no change of a row of `customer` in the log: the table was read once more,
# `2×` in the picture above. In the timeline of a table each change of its columns stands at the snapshot
# that followed it, with the statement.

# %%
timeline = widgets.SnapshotTimeline(lake.table("ods.orders"))
assert any("ADD COLUMN note" in statement for statement in timeline.model.statements.values())
timeline

# %% [markdown]
# ## Paused
#
# While a capture is paused the server keeps its log, and nothing is lost; it only becomes visible later. How
# late, says the freshness: the time from a commit in the database to the snapshot of the lake.

# %%
cockpit.pause()
server.run("UPDATE shop.nation SET n_comment = 'while it was paused' WHERE n_nationkey = 1")
time.sleep(3)
print("paused:", cockpit.state)
cockpit.resume()
catch_up(job, server)
assert lake.table("ods.nation").scan(where="n_comment = 'while it was paused'").count() == 1
late = job.freshness()
half, all_of_them = late.quantile(0.5), late.quantile(1)
print(f"half of {late.counts.sum():,} transactions in {half:.1f} s, all in {all_of_them:.1f} s")

# %% [markdown]
# ## Is it right?
#
# The writer ends, the capture comes to the end of the log, and both sides compute checksums of every row.

# %%
writer.stop()
assert writer.error is None
catch_up(job, server)
cockpit.stop().wait(120)
for name in tables:
    found = source_checksums.compare(address("shop"), name, lake.table(f"ods.{name}"))
    assert not found.differences, found.differences
    print(f"{name}: {found.rows:,} rows are equal")
print(f"{writer.transactions:,} transactions, {rows_read():,} rows read: nothing lost at the seam")

# %%
cockpit.refresh().unwatch()
print(cockpit)

# %%
server.close()
course.progress()

# %% [markdown]
# ## What to remember
#
# - A position in the log belongs to a **read view**, not to a moment.
# - A snapshot in **chunks** goes on beside the log: no lock, and a stop costs one batch.
# - A new column that is NULL everywhere costs nothing; one that has values is **read again**.
# - **Freshness** is measured from the commit in the source; a median alone says little.
#
# ## Two questions to try
#
# 1. Start the server with `mariadb.FAST` instead: how many reads of the textbook lose rows, and why fewer?
# 2. `ALTER TABLE shop.orders MODIFY o_orderstatus VARCHAR(9)`: does the capture read the table again?
#
# Next: **17 · Log and lake**: rows that are seen before their commit.
