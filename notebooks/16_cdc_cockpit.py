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
# A database goes into the lake while others write into it. **One idea: rows and the place in the log from
# which they are followed must come from the same look.** Otherwise rows are lost at the seam.
#
# A private MariaDB is started for this notebook. The data are derived from TPC-H and not comparable to
# published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
race_seconds = 4
warehouse = None  # None: a temporary directory
solve = False

# %%
from notebooks import course

course.begin("16 Change capture", solve=solve)
course.check()

# %%
import time

import tablestore as ts
import widgets
from notebooks.demo import mariadb, source_checksums, tpch_database, watermark_race
from notebooks.demo.catch_up import catch_up
from tablestore.cdc.databases.address import Address

course.need(mariadb.missing())  # what to install, where there is no MariaDB
server = mariadb.MariaDb(mariadb.DURABLE)


def address(database):
    return Address.parse(f"{server.url}/{database}", password_file=str(server.password_file))


print(server.run("SELECT @@version")[0][0], "on port", server.port)

# %% [markdown]
# ## The race
#
# To copy a table without a lock, the textbook asks for the position in the binlog first (`SHOW MASTER
# STATUS`), selects then, and follows the log from the position.

# %% jupyter={"source_hidden": true}
POSITION, SELECT = 30, 40  # ms: when the reader asks
payments = {"A": (10, 15), "B": (20, 45), "C": (25, 35), "D": (33, 38), "E": (35, 50)}  # in the log, seen


def missed(in_log, seen):
    """Whether a row is neither among the selected ones nor behind the position."""
    return in_log <= POSITION and seen > SELECT


seam = course.task(
    "at the seam",
    f"Five payments are committed. The reader asks for the position at **{POSITION} ms**, selects at "
    f"**{SELECT} ms**, then follows the log from the position. **Click each payment that it never gets.**",
    answer=course.Members(
        tuple((name,) for name, times in payments.items() if missed(*times)), noun="payment"
    ),
    picture=course.Grid(
        ("in the binlog at", "seen by others at"),
        tuple(
            (name, tuple(course.Cell(f"{at} ms", name) for at in times)) for name, times in payments.items()
        ),
    ),
    hint="What is in the log after the position is followed. What is seen before the SELECT is selected.",
    why="A transaction is in the binlog before others see it: this one is behind neither. What comes both "
    "ways does no harm, the newer image wins.",
)
seam

# %% [markdown]
# Does it happen? Two readers, four writers, a real server. Each writer notes the GTID of its transaction.

# %%
race = watermark_race.run(server, address(watermark_race.DATABASE), seconds=race_seconds)

# %% jupyter={"source_hidden": true}
seam.then(
    widgets.BarChart(race.to_arrow(), label="reader", value="rows_lost", title="Rows lost for ever"),
)

# %% jupyter={"source_hidden": true} tags=["check:ours_loses_nothing"]
worst = race.worst()
if worst is None:
    verdict = "no row was lost this time: a fast disk, or an idle machine; run the cells above once more"
else:
    lost = race.lost(worst)
    verdict = f"the SELECT that followed {worst.position} has not seen the keys {sorted(lost)},\n"
    verdict += "and the log from there on does not have them either"
seam.then(f"{race}\n{verdict}")

# %% [markdown]
# Ours opens a read view and asks *the view* for its position: no lock, and no row is lost.
#
# ## A whole database, while it changes
#
# A writer inserts and deletes orders all the time. One call captures five tables; the server notes what it is
# asked.

# %%
tables = ("region", "nation", "customer", "orders", "lineitem")
rows = tpch_database.load(server.connect, scale_factor, tables=tables, database="shop")
writer = tpch_database.RefreshWriter(
    server.connect, scale_factor, pairs=10_000, seconds_a_pair=2, database="shop"
)
writer.start()
server.run("SET GLOBAL log_output = 'TABLE'", "SET GLOBAL general_log = 1")

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
# Each box is a chunk: a range of keys, read in a view of its own. The bracket names the position from which
# its rows are followed.

# %%
cockpit = widgets.CaptureProgress(job, title="shop → ods")
cockpit

# %% tags=["check:all_is_read"]
catch_up(job, server)
server.run("SET GLOBAL general_log = 0")
print(cockpit)

# %% jupyter={"source_hidden": true}
asked = server.run(
    "SELECT thread_id, CONVERT(argument USING utf8mb4) FROM mysql.general_log ORDER BY event_time"
)
begins = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
reader = next(thread for thread, text in asked if text.startswith(begins))
known = {
    begins: ("view", "`START TRANSACTION WITH CONSISTENT SNAPSHOT`"),
    "SHOW STATUS LIKE 'binlog": ("position", "`SHOW STATUS LIKE 'binlog_snapshot_%'`"),
    "SELECT SQL_CALC_FOUND_ROWS `": ("rows", "`SELECT …` the chunk"),
    "COMMIT": ("release", "`COMMIT`"),
}
steps = [
    known[start] for thread, text in asked if thread == reader for start in known if text.startswith(start)
]
chunk = course.task(
    "one chunk",
    "What does the capture ask the server for one chunk, in which order? Drag the rows.",
    answer=course.Order(dict(steps)),
    hint="Whose position is wanted? And what does the view have to outlive?",
    why="The server's own log of statements: the view, *its* position, its rows. What changed meanwhile is "
    "read from the binlog behind that position.",
)
chunk

# %% jupyter={"source_hidden": true} tags=["check:a_chunk"]
chunk.then(
    "\n".join(text for thread, text in asked if thread == reader),
)


# %% [markdown]
# ## Columns change
#
# The capture finds the statement in the log and changes the table of the lake.


# %%
def rows_read():
    return sum(one.snapshot_rows for report in job.reports() for one in report.tables)


before = rows_read()
server.run("ALTER TABLE shop.orders ADD COLUMN note VARCHAR(40)")
server.run("UPDATE shop.orders SET note = 'gift' WHERE o_orderkey % 100 = 0")
catch_up(job, server)

# %% jupyter={"source_hidden": true}
gifts = lake.table("ods.orders").scan(where="note = 'gift'").count()
there = lake.table("ods.orders").scan().count()
again = course.task(
    "read again",
    "`ALTER TABLE orders ADD COLUMN note VARCHAR(40)`, then some orders get a note. How many rows of "
    "`orders` does the capture read again from the database?",
    answer=rows_read() - before,
    options={0: "none", gifts: "those with a note", there: "all"},
    wrong={
        0: "then the log would have to bring all that changes.",
        gifts: "their notes come by the log, like any other change.",
        there: "a new column is NULL in the rows that are there: there is nothing to read.",
    },
    hint="Which value have the rows that are there in the new column? Who needs to ask the database for it?",
    why="They are NULL in the new column, in the database and in the lake. The notes come by the log.",
)
again

# %% jupyter={"source_hidden": true} tags=["check:a_new_column"]
again.then(
    f"{gifts} of {there:,} orders are gifts",
)

# %% [markdown]
# Tools like gh-ost fill a copy and swap the two names. For the lake it is one table.

# %% tags=["check:all_tables"]
server.run(
    "CREATE TABLE shop._customer_gho LIKE shop.customer",
    "ALTER TABLE shop._customer_gho ADD COLUMN tier VARCHAR(10) NOT NULL DEFAULT 'basic'",
    "INSERT INTO shop._customer_gho SELECT *, IF(c_acctbal > 9000, 'gold', 'basic') FROM shop.customer",
    "RENAME TABLE shop.customer TO shop._customer_del, shop._customer_gho TO shop.customer",
)
catch_up(job, server)
print(lake.table("ods.customer").scan(where="tier = 'gold'").count(), "gold customers")

# %% [markdown]
# The values of `tier` are in no change of a row: the table was read once more, `2×` in the picture above. The
# timeline has each change of columns.

# %% tags=["check:the_statement"]
timeline = widgets.SnapshotTimeline(lake.table("ods.orders"))
timeline

# %% [markdown]
# ## Paused
#
# While a capture is paused the server keeps its log. The **freshness** is the time from a commit in the
# database to the snapshot of the lake.

# %% tags=["check:after_a_pause"]
cockpit.pause()
server.run("UPDATE shop.nation SET n_comment = 'while it was paused' WHERE n_nationkey = 1")
time.sleep(3)
print("paused:", cockpit.state)
cockpit.resume()
catch_up(job, server)
late = job.freshness()
half, all_of_them = late.quantile(0.5), late.quantile(1)
print(f"half of {late.counts.sum():,} transactions in {half:.1f} s, all in {all_of_them:.1f} s")

# %% [markdown]
# ## Is it right?
#
# Both sides compute checksums of every row.

# %% jupyter={"source_hidden": true} tags=["check:equal_to_the_source"]
writer.stop()
catch_up(job, server)
cockpit.stop().wait(120)
compared = [source_checksums.compare(address("shop"), name, lake.table(f"ods.{name}")) for name in tables]
for name, found in zip(tables, compared, strict=True):
    print(f"{name}: {found.rows:,} rows, {len(found.differences)} differences")
outcome = "something was" if any(found.differences for found in compared) else "nothing"
print(f"{writer.transactions:,} transactions, {rows_read():,} rows read: {outcome} lost at the seam")

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
#
# ## Two questions to try
#
# 1. Start the server with `mariadb.FAST` instead: how many reads of the textbook lose rows, and why fewer?
# 2. `ALTER TABLE shop.orders MODIFY o_orderstatus VARCHAR(9)`: does the capture read the table again?
#
# Next: **17 · Log and lake**: rows that are seen before their commit.
