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
# A changelog says what *changed*, so that a dashboard or another table can keep up. **One idea: to keep up
# with an update, a reader must also learn what the row was before, and somebody has to pay for that.**
#
# | sign | it says |
# |---|---|
# | +I | a new row |
# | −U | the row before an update |
# | +U | the row after it |
# | −D | the row is gone |

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("09 Changelogs", solve=solve)
course.check()

# %%
import pyarrow as pa

import widgets
from tablestore import col

# %% [markdown]
# ## Three writes of one order
#
# An order of 10 is corrected to 30, then cancelled; another one of 5 stays. The source sends *upserts*: the
# row as it is now.

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
# It **adds** the amount of every +I and +U, and **takes away** that of every −U and −D.

# %% jupyter={"source_hidden": true}
sent = [row for write in writes for row in write]
added = sum(row["amount"] for row in sent if row.get("rowkind") != "-D")
taken = sum(row["amount"] for row in sent if row.get("rowkind") == "-D")
by_hand = course.task(
    "the dashboard's sum",
    "The dashboard gets the four rows exactly as they were sent: 10, 5, 30, and −D of 30. "
    "What sum does it show?",
    answer=added - taken,
    ruler=(0, 60, 5),
    hint="Add three amounts, take away one. What happened to the 10 that was replaced by 30?",
    why=f"{added} − {taken} = {added - taken}, but the table holds {truth}: the 10 was never taken away. One "
    "row is missing, −U with the old amount.",
)
by_hand

# %% [markdown]
# ## Four producers
#
# The option `changelog-producer` says who works out the changes.
#
# | producer | who writes the changes | it costs |
# |---|---|---|
# | `none` | nobody: readers get the rows of each commit | nothing |
# | `input` | the source, if it sends −U and −D itself | a copy of the input |
# | `lookup` | the compaction, which looks up the old row | a lookup for each key |
# | `full-compaction` | the difference of two full compactions | it is late |

# %% jupyter={"source_hidden": true} tags=["check:kinds_of_rows"]
producers = widgets.ChangelogView.producers(writes, primary_key="order_id", measure="amount")
made = {producer.name: producer for producer in producers.model.producers}
sent_kinds = {name: [change.kind for change in producer.of_key("7")] for name, producer in made.items()}
kinds = ("+I", "−U", "+U", "−D")
first = course.task(
    "rows of a lookup",
    "Order 7 was written, updated and deleted, in three commits. **Click the rows that the producer `lookup` "
    "writes**, commit by commit.",
    answer=course.Members(
        tuple((f"{change.snapshot} {change.kind}",) for change in made["lookup"].of_key("7")), noun="row"
    ),
    picture=course.Grid(
        kinds,
        tuple(
            (what, tuple(course.Cell(kind, f"{at} {kind}") for kind in kinds))
            for what, at in zip(
                ("written", "updated", "deleted"),
                dict.fromkeys(change.snapshot for change in made["lookup"].of_key("7")),
                strict=True,
            )
        ),
    ),
    hint="A first write and a delete are one row each. And an update: what was it, what is it now?",
    why="+I, then −U and +U for the update, then −D. The lookup found the old row for −U.",
)
first

# %% jupyter={"source_hidden": true}
states = {name: producer.total.state for name, producer in made.items()}
verdicts = course.task(
    "right, wrong or late",
    "A consumer keeps the sum by each producer's rows. **Click, for each, how its sum is at the last "
    "snapshot.**",
    answer=course.Each(
        tuple(f"{name} {state}" for name, state in states.items()),
        ", ".join(f"{name} {state}" for name, state in states.items()),
    ),
    picture=course.Grid(
        ("right", "wrong", "late"),
        tuple(
            (
                name,
                tuple(course.Cell(word, f"{name} {word}", group=name) for word in ("right", "wrong", "late")),
            )
            for name in states
        ),
    ),
    hint="Who only passes on what was sent, without −U? Who waits for something?",
    why="`none` and `input` keep the sum you found by hand. `full-compaction` is right for the last snapshot "
    "whose changes it wrote, and waits for the next full compaction.",
)
verdicts

# %% tags=["check:sums_by_producer"]
verdicts.then(producers)

# %% [markdown]
# ## The source can help
#
# A database's log has the old row of every update: let ours send it as −U.

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
    options=list(helped_sums),
    wrong={
        "none": "it writes no changelog, so nobody gets the old amount from it.",
        "input": "it passes on what it is sent.",
        "lookup": "it looks the old row up by itself.",
        "full-compaction": "its changes wait for the next full compaction.",
    },
    hint="Who only passes on what was sent? Who waits for something? Who finds out by itself?",
    why="Whoever passes on a complete input is right, and lookup always was. Full compaction is still late.",
)
right

# %% jupyter={"source_hidden": true} tags=["check:whole_inputs"]
right.then(
    helped,
)

# %% [markdown]
# ## What it costs
#
# `lookup` writes a changelog file in each compaction, `full-compaction` only in each full one.

# %% jupyter={"source_hidden": true}
costs = producers.data().select(["producer", "rows", "files", "bytes", "first_snapshot"])
paid = made["full-compaction"]
statuses = [change.values["status"] for change in paid.of_key("7")]
statuses_read = course.task(
    "what full compaction leaves out",
    "Full compactions came after the second write. Which statuses of order 7 does a reader of "
    "**`full-compaction`** ever see?",
    options={
        "open": "only open",
        "paid": "only paid",
        "both": "open, then paid",
    },
    answer={("open",): "open", ("paid",): "paid", ("open", "paid"): "both"}[tuple(dict.fromkeys(statuses))],
    wrong={
        "open": "a full compaction came after the update, and it writes the newest row.",
        "paid": "then nothing would have been written before the update.",
        "both": "no full compaction came while the order was open.",
    },
    hint="It writes the difference of two full compactions. Was there one between the first two writes?",
    why="`open` had been replaced before the first full compaction, so no reader ever gets it.",
)
statuses_read

# %% jupyter={"source_hidden": true} tags=["check:one_status"]
statuses_read.then(
    costs.to_pandas().to_string(index=False),
)

# %% [markdown]
# ## A table with changes, snapshot by snapshot
#
# A real table with `lookup`: the changes are in the snapshot of the compaction ◆, not in the ● before it.
# Click a column; the buttons choose kinds.

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

# %% tags=["check:three_updates"]
changes

# %% [markdown]
# ## Without any producer
#
# With `none` each stream reader works out the old rows itself and keeps the last row of every key:
# `table.stream(…)` does.

# %% jupyter={"source_hidden": true} tags=["check:the_stream_goes_on"]
plain = course.orders_table(course.lake(seed=seed), name="shop.plain")
for write in writes[:2]:
    plain.write(pa.Table.from_pylist([{**row, "city": "Oslo", "placed": None} for row in write]))
stream = list(plain.stream(start="earliest", follow=False))
normal = course.task(
    "who keeps the old rows",
    "The table has **no** producer. A reader follows it with `table.stream(…)`. How many rows does it get "
    "for the second write, the update of order 7?",
    answer=stream[-1].to_arrow().num_rows,
    options=[0, 1, 2, 3],
    wrong=lambda count: (
        "the update changed a row that the reader has seen, so it can say what was."
        if count < 2
        else "one order changed: what was and what is are all there is to say."
    ),
    hint="The reader keeps the last row of each key. What can it add when a newer one comes?",
    why=f"−U and +U. The price: the reader keeps {stream[-1].state.rows} rows, one for each key that came.",
)
normal

# %% [markdown]
# ## Joining what comes with what is known
#
# Each order of a stream wants its city's country, from a table that changes slowly. A **lookup join** gives
# it the row as it is known *when the order comes*.

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
known = (first_order["country"][1].as_py() != "unknown", second_order["country"][0].as_py() != "unknown")
when = course.task(
    "what a lookup join knew",
    "Order 2, from Bergen, came before Bergen was in the table of countries; then Bergen was written, and "
    "order 3 came, from Bergen as well. Of which orders from Bergen does a reader of the join know the "
    "country?",
    options={"none": "of none", "third": "of order 3 only", "both": "of both: 2 and 3"},
    answer={(False, False): "none", (False, True): "third", (True, True): "both"}[known],
    wrong={
        "none": "Bergen was in the table when order 3 came.",
        "third": "then order 2 would have come too early.",
        "both": "order 2 was joined before Bergen was there, and nobody joins it again.",
    },
    hint="Was the row there when order 2 came? Is an order that was joined ever sent again?",
    why="Order 2 was joined with nothing, and that stands. To correct it, its change must come again.",
)
when

# %% jupyter={"source_hidden": true} tags=["check:when_a_join_looks"]
when.then(
    repr(join),
)

# %% jupyter={"source_hidden": true} tags=["check:sound"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - A consumer that keeps a sum, a count or a join needs −U: what the row was before.
# - `input` is as good as the source; `lookup` is always complete, and pays with lookups.
# - `full-compaction` is complete but late, and skips what came and went in between.
# - With `none` every reader works out the old rows for itself, or goes wrong.
# - A lookup join shows the table as it was when a row came.
#
# ## Two questions to try
#
# 1. Pass `options={"full-compaction.delta-commits": "1"}` to `ChangelogView.producers`. What is late now,
#    and what does it cost?
# 2. Write a row that does not change anything. Which producers write a change? The option
#    `changelog-producer.row-deduplicate` is about that.
#
# Next: **10 · Merge engines**, when one row of a key is not simply the newest.
