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
# # 15 · A dashboard on lookup joins
#
# Orders come as a stream; who ordered stands in other tables. **One idea: a lookup join asks a table as it is
# when the row comes.**
#
# The data are derived from TPC-H and not comparable to published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
pairs = 4
warehouse = None  # None: a temporary directory
solve = False

# %%
from notebooks import course

course.begin("15 A dashboard", solve=solve)
course.check()

# %%
# %load_ext tablestore
import tablestore as ts
import widgets
from datasets import cdc, tpch

lake = ts.connect(course.warehouse(warehouse))
session = ts.sql_session(lake)
looking = ts.sql_session(lake)  # asks while the first one runs jobs
# %lake session

# %% [markdown]
# ## Two tables that hardly change
#
# Customers and nations are loaded once. The five nations of America are left out, on purpose.

# %%
files = tpch.base(scale_factor, ["customer", "nation"], progress=False)
customers, nations = (str(files[name][0]) for name in ("customer", "nation"))

# %% language="sql"
# CREATE TEMPORARY TABLE customer_files (
#   c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING,
#   c_acctbal DECIMAL(15, 2), c_mktsegment STRING, c_comment STRING
# ) WITH ('connector' = 'filesystem', 'path' = :customers, 'format' = 'parquet');
#
# CREATE TEMPORARY TABLE nation_files (
#   n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING
# ) WITH ('connector' = 'filesystem', 'path' = :nations, 'format' = 'parquet');
#
# CREATE TABLE dim_customer (
#   c_custkey BIGINT, c_name STRING, c_nationkey BIGINT, PRIMARY KEY (c_custkey) NOT ENFORCED
# ) WITH ('bucket' = '2');
#
# CREATE TABLE dim_nation (n_nationkey BIGINT, n_name STRING, PRIMARY KEY (n_nationkey) NOT ENFORCED)
# WITH ('bucket' = '1');
#
# EXECUTE STATEMENT SET BEGIN
#   INSERT INTO dim_customer SELECT c_custkey, c_name, c_nationkey FROM customer_files;
#   INSERT INTO dim_nation SELECT n_nationkey, n_name FROM nation_files WHERE n_regionkey <> 1;
# END

# %% [markdown]
# ## The source, and three tables
#
# The last table adds up by itself: with `merge-engine` = aggregation rows of one key are **summed**.

# %%
source = str(course.warehouse(None))

# %% language="sql"
# CREATE TEMPORARY TABLE orders_source (
#   o_orderkey BIGINT, o_custkey BIGINT, o_totalprice DECIMAL(15, 2), o_orderdate DATE
# ) WITH (
#   'connector' = 'tpch-cdc', 'table' = 'orders', 'scale-factor' = :scale_factor, 'pairs' = :pairs,
#   'pace' = 'manual', 'path' = :source);
#
# CREATE TABLE ods_orders (
#   o_orderkey BIGINT, o_custkey BIGINT, o_totalprice DECIMAL(15, 2), o_orderdate DATE,
#   proc_time AS PROCTIME(),
#   PRIMARY KEY (o_orderkey) NOT ENFORCED
# ) WITH ('bucket' = '2', 'changelog-producer' = 'input');
#
# CREATE TABLE dwd_orders (
#   o_orderkey BIGINT, o_year BIGINT, o_totalprice DECIMAL(15, 2), c_name STRING, n_name STRING,
#   PRIMARY KEY (o_orderkey) NOT ENFORCED
# ) WITH ('bucket' = '2', 'changelog-producer' = 'lookup');
#
# CREATE TABLE ads_nation_purchase_power (
#   o_year BIGINT, n_name STRING, o_sum_totalprice DECIMAL(38, 2), PRIMARY KEY (o_year, n_name) NOT ENFORCED
# ) WITH (
#   'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.o_sum_totalprice.aggregate-function' = 'sum')

# %% [markdown]
# ## Three jobs
#
# Orders arrive, are enriched, and are added up by year and nation.

# %% language="sql"
# SET 'execution.runtime-mode' = 'streaming';
# SET 'pipeline.name' = 'orders arrive';
#
# INSERT INTO ods_orders SELECT * FROM orders_source;
#
# SET 'pipeline.name' = 'orders are enriched';
#
# INSERT INTO dwd_orders
# SELECT o.o_orderkey, YEAR(o.o_orderdate), o.o_totalprice, COALESCE(c.c_name, 'unknown'),
#   COALESCE(n.n_name, 'unknown')
# FROM ods_orders AS o
# LEFT JOIN dim_customer /*+ OPTIONS('lookup.cache-rows' = '20000') */ FOR SYSTEM_TIME AS OF o.proc_time AS c
#   ON o.o_custkey = c.c_custkey
# LEFT JOIN dim_nation FOR SYSTEM_TIME AS OF o.proc_time AS n ON c.c_nationkey = n.n_nationkey;
#
# SET 'pipeline.name' = 'nations are added up';
#
# INSERT INTO ads_nation_purchase_power SELECT o_year, n_name, o_totalprice FROM dwd_orders

# %%
jobs = ("orders arrive", "orders are enriched", "nations are added up")
session.jobs.catch_up(*jobs)

# %% jupyter={"source_hidden": true}
FRANCE, PERU = 6, 17  # n_nationkey


def joined(nation):
    """Under which names the orders of customers from a nation stand in `dwd_orders`."""
    sql = (
        "SELECT DISTINCT d.n_name FROM dwd_orders d JOIN dim_customer c USING (c_name) WHERE c_nationkey = ?"
    )
    return looking.sql(sql, [nation]).to_arrow()["n_name"].to_pylist()


found = {"FRANCE": joined(FRANCE), "PERU": joined(PERU)}
unknown = course.task(
    "without a nation",
    "Two orders came: one of a customer from France, one of a customer from Peru, and the nations of "
    "America are missing. **Click the row that each leaves in `dwd_orders`.**",
    answer=course.Each(
        tuple(f"{nation}: {names[0] if names else 'no row'}" for nation, names in found.items()),
        said=", ".join(names[0] if names else "no row" for names in found.values()),
    ),
    picture=course.Grid(
        ("the name itself", "the default", "left out"),
        tuple(
            (
                nation,
                tuple(
                    course.Cell(name, f"{nation}: {name}", group=nation)
                    for name in (nation, "unknown", "no row")
                ),
            )
            for nation in found
        ),
    ),
    hint="A left join keeps what finds no match, with NULLs. What does COALESCE make of a NULL?",
    why="The join finds no row for Peru, n_name is NULL, and COALESCE says 'unknown'. No order is lost.",
)
unknown

# %% [markdown]
# ## The chart
#
# Turn the years with the buttons; bars move when the sums change.

# %%
power = "SELECT o_year, n_name, o_sum_totalprice FROM ads_nation_purchase_power"
chart = widgets.BarChart(
    lambda: looking.sql(power),
    label="n_name",
    value="o_sum_totalprice",
    group="o_year",
    title="Purchase power by nation",
    follow=0.5,
)

# %% jupyter={"source_hidden": true} tags=["check:names_that_are_unknown"]
unknown.then(
    chart,
)

# %% [markdown]
# ## Changes come
#
# RF1 inserts orders, RF2 deletes others.

# %%
for _ in range(pairs - 2):
    cdc.advance(source)
    session.jobs.catch_up(*jobs)

# %% jupyter={"source_hidden": true}
again = (
    "SELECT o_year, n_name, CAST(sum(o_totalprice) AS DECIMAL(38, 2)) AS o_sum_totalprice FROM dwd_orders "
    "GROUP BY o_year, n_name ORDER BY o_year, n_name"
)


def same_sums():
    """Whether the sums that the jobs kept are those of the orders that are there."""
    kept = looking.sql(power + " WHERE o_sum_totalprice <> 0 ORDER BY o_year, n_name").to_arrow()
    return kept.equals(looking.sql(again).to_arrow().cast(kept.schema))


taken_back = course.task(
    "an order is deleted",
    "RF2 deleted orders that were in the sums. What did the last table do with them?",
    answer="subtracted" if same_sums() else "kept",
    options={
        "subtracted": "what was added is taken back",
        "kept": "sums only grow",
    },
    wrong={
        "subtracted": "then the sums would have to fall.",
        "kept": "the changelog brings the deleted row as −D, and a sum can take it back.",
    },
    hint="`dwd_orders` has a changelog: a deleted row comes as −D. What is the opposite of a sum?",
    why="A −D row is subtracted by the table itself; a job with GROUP BY would do so in its state.",
)
taken_back

# %% [markdown]
# ## America is known from now on
#
# Its nations are added while the jobs run.

# %% language="sql"
# SET 'execution.runtime-mode' = 'batch';
# INSERT INTO dim_nation SELECT n_nationkey, n_name FROM nation_files WHERE n_regionkey = 1

# %% jupyter={"source_hidden": true}
america = (
    "SELECT count(*) AS n FROM dwd_orders JOIN dim_nation USING (n_name) "
    "WHERE n_nationkey IN (1, 2, 3, 17, 24)"
)
stay, become = "they stay as they are", "they become PERU at once"
later = course.task(
    "what was joined",
    "Peru is in `dim_nation` now. What happens to its orders that were joined as 'unknown' before?",
    answer=become if looking.sql(america).to_arrow()["n"][0].as_py() else stay,
    options=[stay, become, "they become PERU at the next compaction"],
    wrong={
        stay: "then nobody would look again.",
        become: "the job asks for the nation when an order comes, and these came before.",
        "they become PERU at the next compaction": "compaction changes no row.",
    },
    hint="Who would have to touch them? A lookup join asks when a row comes.",
    why="A lookup join is made when a row comes, and never again for that row.",
)
later

# %%
cdc.advance(source, 2)
session.jobs.catch_up(*jobs)
chart.unwatch().refresh()

# %% jupyter={"source_hidden": true} tags=["check:old_rows_stay"]
[since] = looking.sql(america).to_arrow()["n"].to_pylist()
later.then(f"{since} orders from America came since, under their own names.")

# %% [markdown]
# ## Is it right?
#
# The sums that the jobs kept, and the same computed at once.

# %% jupyter={"source_hidden": true} tags=["check:sums_follow"]
print(f"{looking.sql(again).to_arrow().num_rows} sums: equal")

# %%
session.jobs.stop_all()
session.spark.stop()
course.progress()

# %% [markdown]
# ## What to remember
#
# - A **lookup join** asks a table as it is when a row comes; its answer is not revised.
# - `COALESCE` gives a default for what is not found; a `LEFT JOIN` loses no row.
# - With `merge-engine` = aggregation the **table** adds up, and takes back.
#
# ## Two questions to try
#
# 1. Make `dwd_orders` without `'changelog-producer' = 'lookup'`. What happens to the sums?
# 2. Give `dim_customer` a million rows: what does `EXPLAIN` of the second query say about its cache?
#
# Next: **16 · Change capture, watched**.
