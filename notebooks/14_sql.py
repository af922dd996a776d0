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
# # 14 · Everything in SQL
#
# Whatever the Python face does, a statement does too. **One idea: a query may end, or go on.** In batch
# mode it answers and is done. In streaming mode it follows its tables, and an INSERT becomes a job that
# keeps another table in step.
#
# First words are counted. Then the change-capture demo of notebook 1 is written again, as statements.
#
# The data are derived from TPC-H and not comparable to published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
rounds = 3
numbering = "linear"  # sets 1, 2, 3 …; "article": 1, 2, 3–4, 5–8 …, as the loop of the source article doubles
warehouse = None  # None: a temporary directory
solve = False

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
# %load_ext tablestore
import tablestore as ts
import widgets
from datasets import cdc
from notebooks.demo import refresh_loop

lake = ts.connect(course.warehouse(warehouse))
session = ts.sql_session(lake)
# %lake session

# %% [markdown]
# ## Count words
#
# `datagen` makes rows up: words of one letter, each of the sixteen that a hexadecimal digit can be. As a
# temporary table it belongs to the session, not to the lake. The query ends, because the rows do.

# %% language="sql"
# CREATE TEMPORARY TABLE words (word STRING) WITH (
#   'connector' = 'datagen', 'number-of-rows' = '100000', 'rows-per-second' = '50000',
#   'fields.word.length' = '1', 'tablestore.seed' = '7');
#
# SELECT word, count(*) AS cnt FROM words GROUP BY word ORDER BY cnt DESC LIMIT 3

# %% [markdown]
# The same count, going on: in streaming mode the `INSERT` is a **job**. It counts what has come, writes the
# counts, and counts on.

# %% language="sql"
# CREATE TABLE word_count (word STRING, cnt BIGINT, PRIMARY KEY (word) NOT ENFORCED) WITH ('bucket' = '1');
#
# SET 'execution.runtime-mode' = 'streaming';
# SET 'pipeline.name' = 'count words';
#
# INSERT INTO word_count SELECT word, count(*) FROM words GROUP BY word

# %% jupyter={"source_hidden": true}
counts = course.task(
    "how many words",
    "100,000 words of one hexadecimal digit each, counted by a job in one batch or in many. How many rows "
    "does `word_count` have in the end?",
    answer=16,
    hint="A keyed table has one row a key, however often it was written.",
    why="The job writes the new count of each word that came; a row of the same key replaces the older one.",
)
counts

# %%
answer = None  # how many rows?
counts.check(answer)

# %% [markdown]
# The rows of `datagen` end, and so does the job. Its result is an ordinary table, which any session may
# ask.

# %%
session.jobs.catch_up("count words")

# %%
batch = ts.sql_session(lake)  # another session, with settings of its own
counted = batch.sql("SELECT count(*) AS words, sum(cnt) AS total FROM word_count")
assert counted.to_arrow().to_pylist() == [{"words": counts.answer.own, "total": 100_000}]
counted

# %% [markdown]
# ## The source
#
# The source of notebook 1 as a table: a snapshot of `lineitem`, then pairs of refresh functions as a
# database would log them. With `'pace' = 'manual'` its log grows when we say so.

# %%
sets = refresh_loop.sets(rounds, numbering=numbering)
pairs = sets[-1].stop - 1
source = str(course.warehouse(None))
[f"{numbers.start}–{numbers.stop - 1}" for numbers in sets]

# %% language="sql"
# CREATE TEMPORARY TABLE lineitem_source (
#   l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15, 2),
#   l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2), l_returnflag STRING,
#   l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,
#   l_shipmode STRING, l_comment STRING
# ) WITH (
#   'connector' = 'tpch-cdc', 'table' = 'lineitem', 'scale-factor' = :scale_factor, 'pairs' = :pairs,
#   'pace' = 'manual', 'path' = :source)

# %% [markdown]
# The table of line items is partitioned by month with two buckets in each: 168 LSM trees at full size. The
# summary has **no** key: its rows come and go.

# %% language="sql"
# CREATE TABLE dwd_lineitem (
#   l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15, 2),
#   l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2), l_returnflag STRING,
#   l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING,
#   l_shipmode STRING, l_comment STRING, l_year BIGINT, l_month BIGINT,
#   PRIMARY KEY (l_orderkey, l_linenumber, l_year, l_month) NOT ENFORCED
# ) PARTITIONED BY (l_year, l_month) WITH ('bucket' = '2', 'changelog-producer' = 'input');
#
# CREATE TABLE ads_pricing_summary (
#   l_returnflag STRING, l_linestatus STRING, sum_qty DECIMAL(38, 2), sum_base_price DECIMAL(38, 2),
#   sum_disc_price DECIMAL(38, 4), sum_charge DECIMAL(38, 6), avg_qty DECIMAL(38, 6),
#   avg_price DECIMAL(38, 6), avg_disc DECIMAL(38, 6), count_order BIGINT
# ) WITH ('bucket' = '2', 'write-mode' = 'change-log')

# %% [markdown]
# ## One INSERT loads and follows
#
# No rows are copied by hand, and no load comes first: the job reads the snapshot chunk by chunk, then the
# log, and each batch is one commit. A second job keeps TPC-H Q1 in step from the changelog of the first
# one's table.

# %% language="sql"
# SET 'execution.runtime-mode' = 'streaming';
# SET 'pipeline.name' = 'load line items';
#
# INSERT INTO dwd_lineitem SELECT *, YEAR(l_shipdate), MONTH(l_shipdate) FROM lineitem_source;
#
# SET 'pipeline.name' = 'keep the summary';
#
# INSERT INTO ads_pricing_summary
# SELECT l_returnflag, l_linestatus, SUM(l_quantity), SUM(l_extendedprice),
#   SUM(l_extendedprice * (1 - l_discount)), SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
#   AVG(l_quantity), AVG(l_extendedprice), AVG(l_discount), COUNT(*)
# FROM dwd_lineitem
# WHERE (l_year < 1998 OR (l_year = 1998 AND l_month <= 9))
#   AND l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
# GROUP BY l_returnflag, l_linestatus

# %%
session.jobs.catch_up("load line items", "keep the summary")
table = lake.table("default.dwd_lineitem")
loaded, snapshot = table.scan().count(), table.inspect.latest_snapshot_id()
assert loaded == sum(c.rows for c in cdc.open_source(source).chunks if c.table == "lineitem")
print(f"{loaded:,} rows at snapshot {snapshot}: all of the source's snapshot")

# %% [markdown]
# ## The refresh loop
#
# Each round appends its pairs to the source's log: RF1 inserts orders, RF2 deletes others. The jobs take
# them from there; nobody calls them.

# %%
timeline = widgets.SnapshotTimeline(table, follow=0.5)
timeline

# %%
for numbers in sets:
    cdc.advance(source, len(numbers))
    session.jobs.catch_up("load line items", "keep the summary")
timeline.unwatch().refresh()
assert table.refresh().inspect.latest_snapshot_id() > snapshot

# %% language="sql"
# SHOW JOBS

# %% [markdown]
# The log is at its end, and so is the job that reads it. The other one follows a table, which has no end:
# it runs until it is stopped. The same statement under the same name goes on where it was.

# %% language="sql"
# STOP JOB 'keep the summary'

# %% [markdown]
# ## The checks of the article
#
# The summary as the job kept it, and the same query computed once more over everything.

# %%
kept = batch.sql("SELECT * FROM ads_pricing_summary ORDER BY l_returnflag, l_linestatus")
computed = batch.sql("""
SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_base_price,
  SUM(l_extendedprice * (1 - l_discount)) AS sum_disc_price,
  SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, AVG(l_quantity) AS avg_qty,
  AVG(l_extendedprice) AS avg_price, AVG(l_discount) AS avg_disc, COUNT(*) AS count_order
FROM dwd_lineitem
WHERE (l_year < 1998 OR (l_year = 1998 AND l_month <= 9))
  AND l_shipdate <= DATE '1998-12-01' - INTERVAL '90' DAY
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
""")
assert kept.to_arrow().equals(computed.to_arrow().cast(kept.schema)), "kept row by row, and equal"
kept

# %% language="sql"
# SET 'execution.runtime-mode' = 'batch'

# %% [markdown]
# The article's look at single rows. It asks for December 1998, in which a source this small ships nothing.

# %% language="sql"
# SELECT l_orderkey, l_shipdate, l_quantity, l_shipmode FROM dwd_lineitem
# WHERE l_year = 1998 AND l_month = 11 AND l_linenumber = 2 AND l_shipinstruct = 'TAKE BACK RETURN'
# ORDER BY l_orderkey LIMIT 5

# %% [markdown]
# ## Time travel
#
# Every commit is there to be asked.

# %%
then = batch.sql("SELECT count(*) AS n FROM dwd_lineitem VERSION AS OF ?", [snapshot])
assert then.to_arrow()["n"].to_pylist() == [loaded]
then

# %% [markdown]
# ## Why a query reads what it reads, and compaction
#
# `EXPLAIN` says what was pushed down to the scan, and how the engine decided about files.

# %% language="sql"
# EXPLAIN SELECT sum(l_quantity) FROM dwd_lineitem WHERE l_year = 1995 AND l_month = 6 AND l_orderkey < 20000

# %%
before = table.inspect.levels().num_rows

# %% language="sql"
# ALTER TABLE dwd_lineitem COMPACT

# %%
after = table.refresh().inspect.levels().num_rows
assert after < before
print(f"{before:,} files before, {after:,} after")

# %%
session.jobs.stop_all()
session.spark.stop()
course.progress()

# %% [markdown]
# ## What to remember
#
# - **The mode decides**: the same query answers once, or follows its tables as a job.
# - One `INSERT` loads and follows; its checkpoint and the position in the table make each row count
#   **once**.
# - A `GROUP BY` that goes on subtracts what is taken back: its state is a table, and so is its result.
# - `VERSION AS OF`, `EXPLAIN`, `ALTER TABLE … COMPACT`, `CALL sys.…`: the rest of the workbench is a
#   statement away.
#
# ## Two questions to try
#
# 1. Run `SELECT * FROM dwd_lineitem` in streaming mode before the refresh loop: which changes do you see?
# 2. Stop `load line items` in the middle of the loop and start it again under its name. Which identifiers
#    do its commits have (`SELECT * FROM dwd_lineitem$snapshots`), and why is no row doubled?
#
# Next: **15 · A dashboard on lookup joins**.
