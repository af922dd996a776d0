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
# # 18 · Tiering
#
# A streaming cluster has what is new, at once, and forgets it after some days. A lake has everything, and
# gets it late. **Tiering** copies from one into the other, in rounds. **One idea: the lake itself knows how
# far it is.** Each commit carries the offsets up to which it has the stream. So the service that copies may
# be killed anywhere, or run twice: no row is lost, none is there twice.
#
# A private Fluss is started for this notebook, if its jars are on this machine. If not, the coordinator of
# this engine takes its place: it serves tables with a log, and speaks the same protocol.

# %% tags=["parameters"]
cluster = "auto"  # fluss, own, or auto: a Fluss if its jars are there
burst = 50_000  # orders that are written before each kill
warehouse = None  # None: a temporary folder
solve = False

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
import json

import pyarrow.compute as pc

import tablestore as ts
import widgets
from notebooks.demo import shop_stream

folder = course.warehouse(warehouse)
streams, what = shop_stream.streams(cluster, folder / "stream", freshness="1s")
print(what, "at", streams.address)

# %% [markdown]
# ## Rounds
#
# Two tables are on the cluster: `shop.orders`, to which rows are only appended, and `shop.customers`, which
# has a key. Somebody buys all the time. The service is a process of its own, as you would start it:
#
# ```
# ./workbench tier --from fluss://host:port --tables 'shop.*' --warehouse lake
# ```
#
# It sends heartbeats to the coordinator: which tables it holds, which rounds are done, whether it has room
# for another. The coordinator hands out a table when its lake is older than the freshness of the table, a
# second here. Each time the table gets a new **tiering epoch**, so that it is known who has it.

# %%
shop = shop_stream.Shop(streams)
shop.open()
service = shop_stream.ServiceProcess(streams.address, folder / "lake")
service.start()
cockpit = widgets.TieringView(service.journal, kill=service.kill, start=service.start, title=f"{what} → lake")
cockpit

# %% [markdown]
# A line in each row goes through the states of a table, from left to right; then the epoch, how many rows
# the lake lacks, when it was complete. Below are the buckets of one table: blue is in the lake, a triangle
# says how far (▼ tiered, ▲ readable), the line at the right is the end of the stream. Point at something for
# its numbers; click a table or a round to see its buckets.

# %%
tables = {shop_stream.ORDERS, shop_stream.CUSTOMERS}
service.wait(lambda report: {one.table for one in report.rounds if one.outcome == "committed"} == tables)
lake = ts.connect(folder / "lake")
orders, customers = lake.table(shop_stream.ORDERS), lake.table(shop_stream.CUSTOMERS)
print(cockpit.refresh())

# %% [markdown]
# ## What the lake knows
#
# A round reads **splits**, one a bucket: an offset from which, an offset up to which. When all are read it
# commits, first to the lake, then to the cluster. The offsets are a property of the snapshot.

# %%
newest = orders.store.snapshots.latest()
for place in json.loads(newest.properties["fluss-offsets"]):
    print(f"snapshot {newest.id}: {place}")
tiered = sum(place["offset"] for place in json.loads(newest.properties["fluss-offsets"]))
assert tiered == orders.at(snapshot=newest.id).scan().count(), "each row of the stream up to there, once"

# %% [markdown]
# ## Fresh to the second
#
# Whoever asks the lake alone gets what was there at the last round. A **union read** takes its newest
# snapshot, and from the cluster what is behind those offsets.

# %% jupyter={"source_hidden": true}
service.wait(lambda report: all(one.lag_rows is not None for one in report.tables))
cockpit.unwatch()
total = shop.shut()
shop.sell(1_000)
in_the_lake = orders.scan().count()
fresh = course.task(
    "fresh",
    f"The shop has shut. It has written {total:,} orders, and 1,000 more a moment ago. The last look at the "
    f"lake alone found {in_the_lake:,}. What does `orders.scan(log=True).count()` say?",
    answer=lambda: shop.orders,
    hint="Which rows are behind the offsets of the newest snapshot? Where are they?",
    why="The rows that no round has brought yet come from the cluster. It does not matter where a round is.",
)
fresh

# %%
answer = None  # a number
fresh.check(answer)

# %%
print("the lake alone:    ", orders.scan().count())
print("with the stream:   ", orders.scan(log=True).count())
assert orders.scan(log=True).count() == fresh.answer.own

# %% [markdown]
# `shop.customers` has a key: its rows are merged, and the stream wins. How many orders each customer gave is
# right at once, though the lake counts behind.

# %%
counts = customers.scan(log=True).to_arrow()["orders"]
print(f"{len(counts):,} customers gave {pc.sum(counts).as_py():,} orders")
assert pc.sum(counts).as_py() == shop.orders

# %% [markdown]
# ## Killed
#
# A service can be killed anywhere. No goodbye: it is SIGKILL, as the button *Kill* above sends it. Two
# moments of a round are worth a look. Rounds can be made to wait there, so that the kill hits just that one.
#
# | rounds wait before | the lake | the cluster |
# |---|---|---|
# | `committing` | has none of the rows, only files that nothing names | knows what it knew |
# | `registering` | has all of the rows | does not know of them |
#
# The first one: orders come in, a round has read them, and is killed before its commit to the lake.

# %%
service.wait(lambda report: orders.scan().count() == shop.orders)
before = shop.orders


def killed_before(phase):
    service.hold(phase)
    shop.sell(burst)
    service.wait(lambda report: any((one.table, one.phase) == (orders.name, phase) for one in report.rounds))
    cockpit.kill()
    service.release()
    found = orders.scan().count() - before
    print(f"{shop.orders - before:,} orders more on the cluster, {found:,} of them in the lake")


killed_before("committing")
assert orders.scan().count() == before, "what nobody committed nobody sees"
print(cockpit)

# %% [markdown]
# Start it again. It finds in its journal what it held, gives that back as failed, and gets it anew with the
# next epoch. Look at the time without heartbeats, and at the round that was cut off.

# %%
cockpit.start()
done = service.wait(lambda report: orders.scan().count() == shop.orders)
killed = [one for one in done.rounds if one.reason == "the service was killed" and one.table == orders.name]
assert len(killed) == 1
cockpit.refresh().table = orders.name
cockpit

# %% [markdown]
# The second moment: the lake has the rows, the cluster does not know.

# %%
before = shop.orders
killed_before("registering")
assert orders.scan().count() > before
print(cockpit)

# %% jupyter={"source_hidden": true}
between = course.task(
    "in between",
    "The service was killed after its commit to the lake and before that to the cluster. The cluster "
    "still believes that the lake is behind. What will the next service do?",
    answer="told",
    options={
        "twice": "read the rows again: they are in the lake twice, until somebody removes them",
        "deleted": "roll the lake back to the snapshot that the cluster knows",
        "told": "see the offsets in the newest snapshot of the lake, tell the cluster, go on behind them",
        "stuck": "refuse the table, until a person decides",
    },
    hint="Two places know how far the lake is. Which of them cannot be wrong about the rows in it?",
    why="Rows and offsets came into the lake in one commit. What the cluster believes is a hint: it is asked "
    "first, and told when it knows less.",
)
between

# %%
answer = None  # one of the options
between.check(answer)

# %% [markdown]
# Start it, and read what its next round of the orders says.

# %%
last = max(one.number for one in service.report().rounds)
cockpit.start()
done = service.wait(
    lambda report: (
        orders.scan().count() == shop.orders
        and report.tables
        and not any(one.lag_rows for one in report.tables)
        and any(one.table == orders.name and one.number > last and one.ended for one in report.rounds)
    )
)
told = [note for one in done.rounds if one.table == orders.name and one.number > last for note in one.notes]
print(*told, sep="\n")
assert any("it was registered" in note for note in told)
cockpit.refresh()

# %%
rows = orders.scan().to_arrow()
assert rows.num_rows == shop.orders
assert pc.count_distinct(rows["order_id"]).as_py() == shop.orders, "each order once"
assert pc.sum(customers.scan(log=True).to_arrow()["orders"]).as_py() == shop.orders
print(f"{rows.num_rows:,} orders in the lake, each once: nothing lost, nothing twice")

# %% [markdown]
# ## Two at once
#
# Even a second service that works on the same tables does no harm: a round is committed only on top of the
# very snapshot from which it was planned. Whoever comes second is refused, and deletes its files.

# %%
shop.sell(burst // 10)
second = lake.tier(f"fluss://{streams.address}", tables="shop.*", follow=False, name="second")
second.wait(60)
print([(one.table, one.outcome or one.phase) for one in second.rounds()])
service.wait(lambda report: orders.scan().count() == shop.orders)
assert pc.count_distinct(orders.scan().to_arrow()["order_id"]).as_py() == shop.orders
print(f"{orders.scan().count():,} orders, each once")

# %%
service.close()
cockpit.refresh().unwatch()
streams.close()
course.progress()

# %% [markdown]
# ## What to remember
#
# - A **round** is one table under one epoch: splits are read, then the lake is committed, then the cluster.
# - **The lake's own offsets are the truth.** Epochs only keep two services from doing the same work.
# - A **union read** is as fresh as the stream, and costs what the rows behind the last round cost.
# - A failing table does not stop the others; its reason stands in the picture.
#
# ## Two questions to try
#
# 1. Press *Kill* and *Start* a few times while the shop is open (`shop.open()`): is a row ever missing?
# 2. Freshness of 10 seconds instead of 1: how many files are there after a minute, and how late is the lake?
#
# Next: **19 · Keep the shop fast**, a game.
