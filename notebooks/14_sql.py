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
# The data are derived from TPC-H and not comparable to published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
rounds = 3
numbering = "linear"  # sets 1, 2, 3 …; "article": 1, 2, 3–4, 5–8 …, as the loop of the source article doubles
warehouse = None  # None: a temporary directory
solve = False

# %%
from notebooks import course

course.begin("14 SQL", solve=solve)
course.check()

# %%
# %load_ext tablestore
import time
from collections import Counter

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
# `datagen` makes rows up: words of one letter, a hexadecimal digit each. The query ends, because the rows do.

# %% language="sql"
# CREATE TEMPORARY TABLE words (word STRING) WITH (
#   'connector' = 'datagen', 'number-of-rows' = '100000', 'rows-per-second' = '50000',
#   'fields.word.length' = '1', 'tablestore.seed' = '7');
#
# SELECT word, count(*) AS cnt FROM words GROUP BY word ORDER BY cnt DESC LIMIT 3

# %% [markdown]
# In streaming mode the `INSERT` is a **job**. It counts what has come, writes the counts, and counts on.

# %% language="sql"
# CREATE TABLE word_count (word STRING, cnt BIGINT, PRIMARY KEY (word) NOT ENFORCED) WITH ('bucket' = '1');
#
# SET 'execution.runtime-mode' = 'streaming';
# SET 'pipeline.name' = 'count words';
#
# INSERT INTO word_count SELECT word, count(*) FROM words GROUP BY word

# %%
session.jobs.catch_up("count words")
batch = ts.sql_session(lake)  # another session, with settings of its own
counted = batch.sql("SELECT count(*) AS words, sum(cnt) AS total FROM word_count")

# %% jupyter={"source_hidden": true}
counts = course.task(
    "how many words",
    "100,000 words of one hexadecimal digit each, counted by a job in one batch or in many. How many rows "
    "does `word_count` have in the end?",
    answer=counted.to_arrow()["words"][0].as_py(),
    options={1: "one sum", 16: "one a word", 26: "one a letter", 100_000: "one a row that came"},
    wrong={
        1: "the sum is kept for each word, not for all.",
        16: "a digit has as many values.",
        26: "the words are hexadecimal digits, not letters.",
        100_000: "a table with a key keeps one row a key.",
    },
    hint="A keyed table has one row a key, however often it was written.",
    why="The job writes the new count of each word that came; a row of the same key replaces the older one.",
)
counts

# %% jupyter={"source_hidden": true} tags=["check:sixteen_words"]
counts.then(
    str(counted),
    "An ordinary table, which any session may ask:",
)

# %% [markdown]
# ## The source
#
# The source of notebook 1 as a table: a snapshot of `lineitem`, then pairs of refresh functions. With
# `'pace' = 'manual'` its log grows when we say so.

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
# Line items are partitioned by month, two buckets in each. The summary has **no** key: its rows come and go.

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
# The job reads the snapshot chunk by chunk, then the log; each batch is one commit. A second job keeps TPC-H
# Q1 in step from the changelog of the first one's table.

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

# %% tags=["check:all_of_the_load"]
session.jobs.catch_up("load line items", "keep the summary")
table = lake.table("default.dwd_lineitem")
loaded, snapshot = table.scan().count(), table.inspect.latest_snapshot_id()
print(f"{loaded:,} rows at snapshot {snapshot}: all of the source's snapshot")

# %% [markdown]
# ## The refresh loop
#
# Each round appends its pairs to the source's log: RF1 inserts orders, RF2 deletes others. The jobs take
# them from there.

# %%
timeline = widgets.SnapshotTimeline(table, follow=0.5)
timeline

# %%
for numbers in sets:
    cdc.advance(source, len(numbers))
    session.jobs.catch_up("load line items", "keep the summary")
timeline.unwatch().refresh()
until = time.monotonic() + 60  # a job that is at its end says so a moment later
while len(running := session.jobs.running()) > 1 and time.monotonic() < until:
    time.sleep(0.1)

# %% jupyter={"source_hidden": true}
left = course.task(
    "which job runs on",
    "The log of the source is at its end. **Which jobs still run?**",
    answer={1: running[0], 2: "both"}.get(len(running), "none") if running else "none",
    options={
        "load line items": "it reads the source's log",
        "keep the summary": "it follows a table",
        "both": "an INSERT that goes on never ends",
        "none": "what is read to its end is done",
    },
    wrong={
        "load line items": "the log of the source has an end, and the job has reached it.",
        "keep the summary": "then the table that it follows would go on.",
        "both": "one of them reads a log that has an end.",
        "none": "one of them follows a table, and a table has no end.",
    },
    hint="Which of the two things that they read has an end?",
    why="A table has no end. Its job runs until it is stopped; the same statement under its name goes on "
    "there.",
)
left

# %% jupyter={"source_hidden": true} tags=["check:the_summary_goes_on"]
left.then(
    str(session.sql("SHOW JOBS")),
    "`SHOW JOBS`:",
)

# %% language="sql"
# STOP JOB 'keep the summary'

# %% [markdown]
# ## Is it right?
#
# The summary as the job kept it, and the same query computed once more over everything.

# %% tags=["check:kept_and_computed"]
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
kept

# %% language="sql"
# SET 'execution.runtime-mode' = 'batch'

# %% language="sql"
# SELECT l_orderkey, l_shipdate, l_quantity, l_shipmode FROM dwd_lineitem
# WHERE l_year = 1998 AND l_month = 11 AND l_linenumber = 2 AND l_shipinstruct = 'TAKE BACK RETURN'
# ORDER BY l_orderkey LIMIT 5

# %% [markdown]
# ## Time travel

# %%
then = batch.sql("SELECT count(*) AS n FROM dwd_lineitem VERSION AS OF ?", [snapshot])
then

# %% [markdown]
# ## Why a query reads what it reads

# %%
question = "l_year = 1995 AND l_month = 6 AND l_orderkey < 20000"
plan = batch.sql(f"EXPLAIN SELECT sum(l_quantity) FROM dwd_lineitem WHERE {question}")

# %% jupyter={"source_hidden": true}
decisions = table.refresh().scan(where=ts.where(question)).explain().decisions().to_pylist()
skipped = Counter(file["rule"] for file in decisions if not file["kept"])
most = course.task(
    "the rule that skips most",
    f"`SELECT sum(l_quantity) … WHERE {question}`: the table has {len(decisions):,} files. **Which rule "
    "spares most of them?**",
    answer=skipped.most_common(1)[0][0],
    options={
        "partition": "the month of a file's directory",
        "bucket": "the hash of the key",
        "key range": "the smallest and the largest key of a file",
        "column stats": "the smallest and the largest quantity",
    },
    wrong={
        "partition": "the query would have to name a month.",
        "bucket": "a range of keys names no bucket: neighbouring keys have other hashes.",
        "key range": "each file holds keys from all over the range of its month.",
        "column stats": "the query does not ask for a quantity.",
    },
    hint="Seven years of months, and the query wants one. A range of a key names no bucket.",
    why=f"It skips {skipped.most_common(1)[0][1]:,} of {len(decisions):,} files, and opens none of them.",
)
most

# %%
most.then("\n".join(plan.to_arrow()["plan"].to_pylist()))

# %% [markdown]
# ## Compaction

# %%
levels = table.inspect.levels()
months = len(set(levels["partition"].to_pylist()))
buckets = len(set(zip(levels["partition"].to_pylist(), levels["bucket"].to_pylist(), strict=True)))

# %% language="sql"
# ALTER TABLE dwd_lineitem COMPACT

# %% jupyter={"source_hidden": true}
after = table.refresh().inspect.levels().num_rows
compacted = course.task(
    "files after compaction",
    f"`ALTER TABLE … COMPACT`: {levels.num_rows:,} files in {months} months, two buckets in each. **How "
    "many are left?**",
    answer=after,
    options={
        1: "one table, one file",
        months: "one a month",
        buckets: "one a bucket",
        levels.num_rows: "as many",
    },
    wrong={
        1: "files of different months lie in different folders.",
        months: "a month has two buckets, and each is a tree of its own.",
        buckets: "that would be one tree a bucket.",
        levels.num_rows: "compaction merges the runs of a bucket.",
    },
    hint="Each bucket is an LSM tree of its own.",
    why="One run is left in each bucket, and it is small enough for one file.",
)
compacted

# %% jupyter={"source_hidden": true} tags=["check:as_it_was"]
print(f"{levels.num_rows:,} files before compaction")

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
#
# ## Two questions to try
#
# 1. Run `SELECT * FROM dwd_lineitem` in streaming mode before the refresh loop: which changes do you see?
# 2. Stop `load line items` in the middle of the loop and start it again: why is no row doubled?
#
# Next: **15 · A dashboard on lookup joins**.
