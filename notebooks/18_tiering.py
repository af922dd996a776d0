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
# A streaming cluster has what is new and forgets it. A lake has everything, late. **Tiering** copies from one
# into the other, in rounds. **One idea: the lake itself knows how
# far it is.** So the service that copies may be killed anywhere, or run twice.
#
# A private Fluss is started if its jars are here. If not, this engine's coordinator takes its place.

# %% tags=["parameters"]
cluster = "auto"  # fluss, own, or auto: a Fluss if its jars are there
burst = 50_000  # orders that are written before each kill
warehouse = None  # None: a temporary folder
solve = False

# %%
from notebooks import course

course.begin("18 Tiering", solve=solve)
course.check()

# %%
import json

import tablestore as ts
import widgets
from notebooks.demo import shop_stream

folder = course.warehouse(warehouse)
streams, what = shop_stream.streams(cluster, folder / "stream", freshness="1s")
print(what, "at", streams.address)

# %% [markdown]
# ## Rounds
#
# Rows are only appended to `shop.orders`; `shop.customers` has a key. The service is a process of its own:
#
# ```
# ./workbench tier --from fluss://host:port --tables 'shop.*' --warehouse lake
# ```
#
# The coordinator hands out a table when its lake is older than a second, under a new **tiering epoch**.

# %%
shop = shop_stream.Shop(streams)
shop.open()
service = shop_stream.ServiceProcess(streams.address, folder / "lake")
service.start()
cockpit = widgets.TieringView(service.journal, kill=service.kill, start=service.start, title=f"{what} → lake")
cockpit

# %% [markdown]
# Each row is a table on its way through the states; below are the buckets of one. Blue is in the lake, ▼ is
# tiered, ▲ readable, the line at the right is the end of the stream.

# %%
tables = {shop_stream.ORDERS, shop_stream.CUSTOMERS}
service.wait(lambda report: {one.table for one in report.rounds if one.outcome == "committed"} == tables)
lake = ts.connect(folder / "lake")
orders, customers = lake.table(shop_stream.ORDERS), lake.table(shop_stream.CUSTOMERS)
print(cockpit.refresh())

# %% [markdown]
# ## What the lake knows
#
# A round reads **splits**, one a bucket: from an offset up to an offset.

# %% jupyter={"source_hidden": true}
said = {
    "planning": "the coordinator gives the table an epoch, its splits are made",
    "reading": "rows of each split go into data files",
    "committing": "a snapshot of the lake names the files and the offsets",
    "registering": "the cluster hears how far the lake is",
}
in_order = course.task(
    "a round",
    "What does a round do, in which order? Drag the rows.",
    answer=course.Order(said),
    hint="Whose word counts if the service is killed in between? That one comes first.",
    why="First the lake, then the cluster. The offsets are a property of the snapshot, as you see below.",
)
in_order

# %% tags=["check:the_offsets"]
newest = orders.store.snapshots.latest()
kept = newest.properties["fluss-offsets"]  # since Fluss 0.9 the path of a file
offsets = json.loads(newest.properties.get("tablestore.fluss-offsets", kept))
for place in offsets:
    print(f"snapshot {newest.id}: {place}")

# %% [markdown]
# ## Fresh to the second
#
# The lake has what was there at the last round. A **union read** takes its newest snapshot, and from the
# cluster what is behind.

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
    answer=lambda: orders.scan(log=True).count(),
    options={
        in_the_lake: "the lake alone",
        total: "when the shop shut",
        total + 1_000: "all that were written",
    },
    wrong={
        in_the_lake: "`log=True` also asks the cluster for what no round has brought yet.",
        total: "1,000 orders were written after that.",
        total + 1_000: "that would include orders that no round has brought.",
    },
    hint="Which rows are behind the offsets of the newest snapshot? Where are they?",
    why="The rows that no round has brought yet come from the cluster. It does not matter where a round is.",
)
fresh

# %% jupyter={"source_hidden": true} tags=["check:with_the_stream"]
alone, counts = orders.scan().count(), customers.scan(log=True).to_arrow()["orders"]
fresh.then(
    f"the lake alone:  {alone:,} orders\nwith the stream: {shop.orders:,}, given by {len(counts):,} "
    f"customers",
    "`shop.customers` has a key: its rows are merged, and the stream wins.",
)

# %% [markdown]
# ## Killed
#
# No goodbye: it is SIGKILL, as the button *Kill* above sends it. Rounds can be made to wait at a moment, so
# that the kill hits just that one. First: a round has read its rows, and is killed before its commit to the
# lake.

# %%
service.wait(lambda report: orders.scan().count() == shop.orders)
before = shop.orders


def killed_before(phase):
    service.wait(lambda report: all(one.ended for one in report.rounds if one.table == orders.name))
    service.hold(phase)
    shop.sell(burst)
    service.wait(lambda report: any((one.table, one.phase) == (orders.name, phase) for one in report.rounds))
    cockpit.kill()
    service.release()
    return orders.scan().count() - before


first_found = killed_before("committing")
at_the_kill = str(cockpit)

# %% jupyter={"source_hidden": true}
uncommitted = course.task(
    "before the commit",
    f"{burst:,} orders came, a round has read them into data files, and is killed before its commit to the "
    "lake. **How many of them does a reader of the lake see?**",
    answer=first_found,
    options={0: "what nobody committed nobody sees", burst // 2: "about half", burst: "the files are there"},
    wrong={
        0: "then a file that nobody names would not count.",
        burst // 2: "a commit is seen whole or not at all.",
        burst: "the files are there, but no snapshot names them.",
    },
    hint="Which file makes data files count?",
    why="The files are there, but nothing names them. The next service reads the rows again.",
)
uncommitted

# %% [markdown]
# Start it again. It gives back as failed what it held, and gets it anew with the next epoch.

# %%
cockpit.start()
done = service.wait(lambda report: orders.scan().count() == shop.orders)
killed = [one for one in done.rounds if one.reason == "the service was killed" and one.table == orders.name]
cockpit.refresh().table = orders.name
cockpit

# %% jupyter={"source_hidden": true} tags=["check:a_killed_round"]
uncommitted.then(
    at_the_kill,
    "At the kill:",
)

# %% [markdown]
# The second moment: the lake has the rows, the cluster does not know.

# %%
before = shop.orders
second_found = killed_before("registering")
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
    wrong={
        "twice": "the snapshot of the lake has the offsets of the rows that it brought.",
        "deleted": "readers of the lake have seen the snapshot; nothing takes it back.",
        "told": "then the lake would have to know how far it is.",
        "stuck": "the lake itself knows how far it is, so nobody has to decide.",
    },
    hint="Two places know how far the lake is. Which of them cannot be wrong about the rows in it?",
    why="Rows and offsets came into the lake in one commit. What the cluster believes is a hint: it is asked "
    "first, and told when it knows less.",
)
between

# %% [markdown]
# Start it: its next round of the orders says what it found.

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
cockpit.refresh()

# %% jupyter={"source_hidden": true} tags=["check:found_by_the_next"]
between.then(
    "\n".join(told),
    f"{second_found:,} orders were in the lake. In the words of the next round:",
)

# %% jupyter={"source_hidden": true} tags=["check:each_order_once"]
rows = orders.scan().to_arrow()
between.then(f"{rows.num_rows:,} orders in the lake, each once: nothing lost, nothing twice")

# %% [markdown]
# ## Two at once
#
# A round is committed only on top of the snapshot from which it was planned. A second service is refused, and
# deletes its files.

# %% tags=["check:still_once"]
shop.sell(burst // 10)
second = lake.tier(f"fluss://{streams.address}", tables="shop.*", follow=False, name="second")
second.wait(60)
print([(one.table, one.outcome or one.phase) for one in second.rounds()])
service.wait(lambda report: orders.scan().count() == shop.orders)
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
#
# ## Two questions to try
#
# 1. Press *Kill* and *Start* a few times while the shop is open (`shop.open()`): is a row ever missing?
# 2. Freshness of 10 seconds: how many files are there after a minute, and how late is the lake?
#
# Next: **19 · Keep the shop fast**, a game.
