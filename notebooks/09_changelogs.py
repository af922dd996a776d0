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
# # 9 · Changelogs
#
# A table tells you what *is*. A changelog tells you what *changed*, so that somebody else can keep up: a
# dashboard, a cache, another table. **One idea: to keep up with an update, a reader must also learn what
# the row was before, and somebody has to pay for finding that out.**
#
# Four kinds of change, and their signs:
#
# | sign | it says |
# |---|---|
# | +I | here is a new row |
# | −U | this is what the row was before an update |
# | +U | this is what it is now |
# | −D | this row is gone |

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
import pyarrow as pa

import widgets
from tablestore import col

# %% [markdown]
# ## Three writes of one order
#
# An order is placed for 10, corrected to 30, and cancelled. Another one of 5 stays as it is. The source
# sends *upserts*: "this is the row now". It does not say what the row was before.

# %%
writes = [
    [
        {"order_id": 7, "status": "open", "amount": 10},
        {"order_id": 8, "status": "open", "amount": 5},
    ],
    [{"order_id": 7, "status": "paid", "amount": 30}],
    [{"order_id": 7, "status": "paid", "amount": 30, "rowkind": "-D"}],
]
truth = 5  # what the table holds in the end: order 8

# %% [markdown]
# ## A consumer that keeps a sum
#
# A dashboard shows the sum of `amount`. It does not read the table; it follows the changes: it **adds** the
# amount of every +I and +U, and **takes away** the amount of every −U and −D.
#
# Let us do that by hand, with the rows as the source sent them.

# %% jupyter={"source_hidden": true}
sent = [row for write in writes for row in write]
added = sum(row["amount"] for row in sent if row.get("rowkind") != "-D")
taken = sum(row["amount"] for row in sent if row.get("rowkind") == "-D")
by_hand = course.task(
    "the dashboard's sum",
    "The dashboard gets the four rows exactly as they were sent: 10, 5, 30, and −D of 30. "
    "What sum does it show?",
    answer=added - taken,
    hint="Add three amounts, take away one. What happened to the 10 that was replaced by 30?",
    why=f"{added} − {taken} = {added - taken}, but the table holds {truth}: the 10 was never taken away.",
)
by_hand

# %%
answer = None  # what sum?
by_hand.check(answer)

# %% [markdown]
# The sum is wrong because one row is missing: −U with the old amount, 10. Who could have sent it?
#
# ## Four producers
#
# Paimon tables have an option, `changelog-producer`. It says who works out the changes.
#
# | producer | who writes the changes | it costs |
# |---|---|---|
# | `none` | nobody: readers get the rows of each commit | nothing |
# | `input` | the source, if it sends −U and −D itself | a copy of the input |
# | `lookup` | the compaction, which looks up the old row before it commits | a lookup for each key |
# | `full-compaction` | the difference of two full compactions | nothing more, but late |
#
# Here is the same input through all four. A small number is the snapshot in which the row appeared.

# %% jupyter={"source_hidden": true}
producers = widgets.ChangelogView.producers(writes, primary_key="order_id", measure="amount")
made = {producer.name: producer for producer in producers.model.producers}
sent_kinds = {name: [change.kind for change in producer.of_key("7")] for name, producer in made.items()}
first = course.task(
    "rows of a lookup",
    "Before you look: order 7 was written, updated and deleted, in three commits. "
    "How many rows does the producer **`lookup`** write about it?",
    answer=len(sent_kinds["lookup"]),
    hint="One for the first write, one for the delete. And an update: what was it, what is it now?",
    why="+I, then −U and +U for the update, then −D. The lookup found the old row for −U.",
)
first

# %%
answer = None  # how many rows?
first.check(answer)

# %%
assert sent_kinds["lookup"] == ["+I", "−U", "+U", "−D"]
assert sent_kinds["none"] == sent_kinds["input"] == ["+I", "+I", "−D"], "as the source sent them"
producers

# %% [markdown]
# Look at the verdicts. `none` and `input` keep the wrong sum you found by hand: the source sent no −U.
# `lookup` is right. `full-compaction` is not wrong but **late**: it is right for the last snapshot whose
# changes it wrote, and waits for the next full compaction.

# %%
sums = {name: producer.total for name, producer in made.items()}
assert {name: total.state for name, total in sums.items()} == {
    "none": "wrong",
    "input": "wrong",
    "lookup": "right",
    "full-compaction": "late",
}
assert sums["none"].kept == str(added - taken)
assert sums["lookup"].kept == str(truth)

# %% [markdown]
# ## The source can help
#
# Some sources know what a row was: a database's log holds the old row of every update. Let ours do so.

# %% jupyter={"source_hidden": true}
full = [
    writes[0],
    [{**writes[0][0], "rowkind": "-U"}, {**writes[1][0], "rowkind": "+U"}],
    writes[2],
]
helped = widgets.ChangelogView.producers(full, primary_key="order_id", measure="amount")
helped_sums = {producer.name: producer.total for producer in helped.model.producers}
right = course.task(
    "input with retractions",
    "The source now sends −U with the old row before each +U. Which producers give the right sum "
    "**in time**, at the last snapshot?",
    answer={name for name, total in helped_sums.items() if total.state == "right"},
    hint="Who only passes on what was sent? Who waits for something? Who finds out by itself?",
    why="Whoever passes on a complete input is right, and lookup always was. Full compaction is still late.",
)
right

# %%
answer = None  # names, such as ["input", "lookup"]
right.check(answer)

# %%
assert helped_sums["input"].state == "right"
helped

# %% [markdown]
# ## What it costs
#
# `lookup` reads old rows and writes a changelog file in each compaction. `full-compaction` writes fewer,
# since what happened between two full compactions becomes one change.

# %% jupyter={"source_hidden": true}
costs = producers.data().select(["producer", "rows", "files", "bytes", "first_snapshot"])
paid = made["full-compaction"]
statuses_read = course.task(
    "what full compaction leaves out",
    "Full compactions came after the second write. Which statuses of order 7 does a reader of "
    "**`full-compaction`** ever see?",
    options={
        "open": "only open",
        "paid": "only paid",
        "both": "open, then paid",
    },
    answer="paid",
    hint="It writes the difference of two full compactions. Was there one between the first two writes?",
    why="`open` had been replaced before the first full compaction, so no reader ever gets it.",
)
statuses_read

# %%
answer = None  # "open", "paid" or "both"
statuses_read.check(answer)

# %%
statuses = [change.values["status"] for change in paid.of_key("7")]
assert statuses == ["paid"]
assert paid.files < made["lookup"].files
costs.to_pandas()

# %% [markdown]
# ## A table with changes, snapshot by snapshot
#
# A real table of the course now, with `lookup`. Each row of the picture is a key, each column a snapshot.
# ◆ marks a compaction: with `lookup` the changes are in its snapshot, not in the ● before it. Click a
# column, or use the arrow keys; the buttons at the top choose kinds.

# %%
options = {"changelog-producer": "lookup", "write-only": False}
table = course.orders_table(course.lake(warehouse, seed=seed), options)
table.write(course.orders(8, seed=seed))
table.write(course.updates(3, among=8, seed=seed))
table.delete(col("order_id") == 2)
changes = widgets.ChangelogView(table, columns=["status"])
timeline = widgets.SnapshotTimeline(table)
timeline.link(changes)
timeline

# %%
changes

# %%
kinds = [commit["commit_kind"] for commit in table.inspect.commits().to_pylist()]
assert kinds == ["APPEND", "COMPACT"] * 3
rows = table.changes(since=2, until=4)
assert rows["rowkind"].to_pylist() == ["-U", "+U"] * 3, "three updates: what was, what is"
by_key = rows.group_by("order_id").aggregate([("rowkind", "count")])
assert set(by_key["rowkind_count"].to_pylist()) == {2}

# %% [markdown]
# ## Without any producer
#
# `none` need not mean a wrong sum. A stream reader can work out the old rows itself: it keeps the last row
# of every key. Our engine does that when you follow a table with `table.stream(…)`. The work and the memory
# move from the table, once, to each reader.

# %% jupyter={"source_hidden": true}
plain = course.orders_table(course.lake(seed=seed), name="shop.plain")
for write in writes[:2]:
    plain.write(pa.Table.from_pylist([{**row, "city": "Oslo", "placed": None} for row in write]))
stream = list(plain.stream(start="earliest", follow=False))
normal = course.task(
    "who keeps the old rows",
    "The table has **no** producer. A reader follows it with `table.stream(…)`. How many rows does it get "
    "for the second write, the update of order 7?",
    answer=stream[-1].to_arrow().num_rows,
    hint="The reader keeps the last row of each key. What can it add when a newer one comes?",
    why=f"−U and +U. The price: the reader keeps {stream[-1].state.rows} rows, one for each key that came.",
)
normal

# %%
answer = None  # how many rows?
normal.check(answer)

# %%
assert stream[-1].to_arrow()["rowkind"].to_pylist() == ["-U", "+U"]

# %% [markdown]
# ## Joining what comes with what is known
#
# Orders come as a stream, and each wants the name of its customer's country. That table changes, too: slowly.
# A **lookup join** gives each order the row as it is known *when the order comes*. A later change of the
# table affects later orders only; what was joined is never sent again.

# %% jupyter={"source_hidden": true}
countries = course.lake(seed=seed).create_table(
    "shop.city_country", schema={"city": "STRING", "country": "STRING"}, primary_key=["city"]
)
countries.write([{"city": "Oslo", "country": "Norway"}])
join = countries.lookup("city", fill={"country": "unknown"}, follow=False)
first_order = join.join([{"order_id": 1, "city": "Oslo"}, {"order_id": 2, "city": "Bergen"}])
countries.write([{"city": "Bergen", "country": "Norway"}])
refreshed = join.refresh()
second_order = join.join([{"order_id": 3, "city": "Bergen"}])
when = course.task(
    "what a lookup join knew",
    "Order 2, from Bergen, came before Bergen was in the table of countries; then Bergen was written, and "
    "order 3 came, from Bergen as well. Of which orders from Bergen does a reader of the join know the "
    "country?",
    options={"none": "of none", "third": "of order 3 only", "both": "of both: 2 and 3"},
    answer="third",
    hint="Was the row there when order 2 came? Is an order that was joined ever sent again?",
    why="Order 2 was joined with nothing, and that stands. To correct it, its change must come again.",
)
when

# %%
answer = None  # "none", "third" or "both"
when.check(answer)

# %%
assert first_order["country"].to_pylist() == ["Norway", "unknown"]
assert second_order["country"].to_pylist() == ["Norway"]
assert refreshed.changed == 1, "a refresh reads what changed, not the table"
join

# %%
assert table.check() == [], "the table is sound"
course.progress()

# %% [markdown]
# ## What to remember
#
# - A consumer that keeps a sum, a count or a join needs −U: what the row was before.
# - `input` is as good as the source. `lookup` is always complete, and pays with lookups before each commit.
# - `full-compaction` is cheap to read and complete, but late, and skips what came and went in between.
# - With `none` every reader works out the old rows for itself, or goes wrong.
# - A lookup join shows the table as it was when a row came; later changes count for later rows.
#
# ## Two questions to try
#
# 1. Pass `options={"full-compaction.delta-commits": "1"}` to `ChangelogView.producers`. What is late now,
#    and what does it cost?
# 2. Write a row that does not change anything. Which producers write a change? The option
#    `changelog-producer.row-deduplicate` is about that.
#
# Next: **10 · Merge engines**, when one row of a key is not simply the newest.
