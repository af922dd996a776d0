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
# # 10 · Merge engines
#
# So far the newest row of a key won, whole. That is one choice of four. **One idea: the merge engine says
# how the rows of a key become one row, and the result is the same however many runs each compaction
# takes.**
#
# | engine | of all rows of a key it keeps |
# |---|---|
# | `deduplicate` | the newest |
# | `first-row` | the oldest |
# | `partial-update` | for each column the newest value that is not null |
# | `aggregation` | for each column what a function makes of all values: sum, max, … |

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
import widgets

# %% [markdown]
# ## The same rows through four engines
#
# A shop has two sources for one product. One knows the stock, the other the price. Each sends only what it
# knows; the rest is null. Three runs, the newest first:

# %%
newest = [{"product": 1, "name": None, "stock": 4, "price": None}]
middle = [{"product": 1, "name": "lamp", "stock": None, "price": 30}]
oldest = [{"product": 1, "name": "Lamp", "stock": 9, "price": 25}]
runs = [newest, middle, oldest]
summed = {"fields.stock.aggregate-function": "sum", "fields.price.aggregate-function": "max"}
view = widgets.MergeView.of(runs, primary_key="product", options={"aggregation": summed})
results = {}
for engine in ("deduplicate", "first-row", "partial-update", "aggregation"):
    view.engine = engine
    results[engine] = view.model.steps[0].values
view.engine = "deduplicate"
view.mode = "columns"

# %% jupyter={"source_hidden": true}
dedup = course.task(
    "deduplicate",
    "The engine is **deduplicate**. What is the product's **price** after the merge?",
    options=["30", "25", "null"],
    answer=results["deduplicate"]["price"] or "null",
    hint="Deduplicate takes whole rows. Which row is the newest, and what is its price?",
    why="The newest row wins whole, with its nulls. For sources that know only a part, that loses the rest.",
)
dedup

# %%
answer = None  # "30", "25" or "null"
dedup.check(answer)

# %% jupyter={"source_hidden": true}
partial = course.task(
    "partial-update",
    "The engine is **partial-update**, the runs are the same. What row comes out?",
    answer=course.Rows(
        widgets.MergeView.of(runs, "partial-update", primary_key="product")
        .data()
        .select(["name", "stock", "price"])
    ),
    hint="Go column by column, from the newest run down, and take the first value that is not null.",
    why="Each column has its newest value that is not null: two of the middle run, the stock of the newest.",
)
partial

# %%
answer = None  # a row: {"name": …, "stock": …, "price": …}
partial.check(answer)

# %% [markdown]
# Here it is. Switch the engine above the picture and watch which boxes are kept. A struck value has lost;
# the small text in an output box names the run its value is from.

# %%
view.engine = "partial-update"
assert results["partial-update"] == {"name": "lamp", "stock": "4", "price": "30"}
assert results["first-row"] == {"name": "Lamp", "stock": "9", "price": "25"}
view

# %% [markdown]
# ## Out of order: sequence groups
#
# Partial-update trusts the order of arrival. With two sources that is not enough: each has its own clock,
# and a late row of one must not undo the other. A **sequence group** gives a set of columns its own clock:
#
#     fields.<clock>.sequence-group = <columns>
#
# Then a row changes these columns only if its clock is not behind. And *then null counts*: the row speaks
# for its group as a whole.

# %% jupyter={"source_hidden": true}
late = [{"id": 45, "s_at": 17, "stock": 2, "shelf": None, "p_at": None, "price": None}]
second = [{"id": 45, "s_at": 21, "stock": 7, "shelf": None, "p_at": 3, "price": 10}]
first = [{"id": 45, "s_at": 12, "stock": 5, "shelf": "B4", "p_at": 8, "price": 12}]
groups = {"fields.s_at.sequence-group": "stock,shelf", "fields.p_at.sequence-group": "price"}
clocks = widgets.MergeView.of([late, second, first], "partial-update", primary_key="id", options=groups)
row = clocks.model.steps[0].values
stock = course.task(
    "the late stock",
    "Newest run: `s_at` 17, stock 2. Middle run: `s_at` 21, stock 7. Oldest run: `s_at` 12, stock 5. "
    "`s_at` guards `stock` and `shelf`. Which **stock** comes out?",
    answer=int(row["stock"]),
    hint="The newest run arrived last, but what does its clock say, compared with the others?",
    why="The clock 21 is the largest: the run that arrived last is late, and changes nothing in its group.",
)
stock

# %%
answer = None  # which stock?
stock.check(answer)

# %% jupyter={"source_hidden": true}
shelf = course.task(
    "null in a group",
    "And **shelf**? It is null in the two newer runs and `B4` in the oldest one.",
    options={"B4": "the newest value that is not null", "null": "what the winning row of the group says"},
    answer=row["shelf"] or "null",
    hint="Outside groups null means: nothing to say. Inside a group one row speaks for all its columns.",
    why="The row with `s_at` 21 wins the group as a whole. It says null, so the shelf is null.",
)
shelf

# %%
answer = None  # "B4" or "null"
shelf.check(answer)

# %% jupyter={"source_hidden": true}
price = course.task(
    "the old price",
    "`p_at` guards `price`: 3 with price 10 in the middle run, 8 with price 12 in the **oldest** run, null "
    "in the newest. Which price comes out?",
    answer=int(row["price"]),
    hint="The group's clock decides, not the run. And a row without a clock says nothing about the group.",
    why="8 > 3: the oldest run wins, because the clock decides and not the order of arrival.",
)
price

# %%
answer = None  # which price?
price.check(answer)

# %%
origins = clocks.model.steps[0].origins
assert row == {"s_at": "21", "stock": "7", "shelf": None, "p_at": "8", "price": "12"}
assert (origins["stock"].run, origins["price"].run) == (1, 2), "two columns, two different runs"
print(clocks.model.steps[0].why)
clocks

# %% [markdown]
# ## Aggregation, and retractions
#
# `aggregation` gives every column a function. Here a counter of sold pieces: each row is a sale, and the
# table holds only the sum.
#
# What if a sale is cancelled? A −D does not delete the row: it **retracts** its value, takes it back. Some
# functions can do that, some cannot.

# %% jupyter={"source_hidden": true}
sales = [
    [{"product": 1, "sold": 4, "best": 90, "rowkind": "-D"}],
    [{"product": 1, "sold": 6, "best": 70, "rowkind": "+I"}],
    [{"product": 1, "sold": 4, "best": 90, "rowkind": "+I"}],
    [{"product": 1, "sold": 9, "best": 80, "rowkind": "+I"}],
]
adding = {"fields.sold.aggregate-function": "sum", "fields.best.aggregate-function": "max"}
adding["fields.best.ignore-retract"] = "true"
counter = widgets.MergeView.of(sales, "aggregation", primary_key="product", options=adding)
sums = counter.model.steps[0].values
sold = course.task(
    "a sale taken back",
    "Sales of 9, 4 and 6 pieces; then the sale of 4 is cancelled by a −D. What does **sum** hold?",
    answer=int(sums["sold"]),
    hint="Add the three, then take back one.",
    why="9 + 4 + 6 − 4 = 15: a sum can be taken back, since subtracting undoes adding.",
)
sold

# %%
answer = None  # which sum?
sold.check(answer)

# %% jupyter={"source_hidden": true}
best = course.task(
    "a maximum taken back",
    "`best` is a **max**: 80, then 90, then 70; the sale with 90 is the one that was cancelled. "
    "The table ignores retractions of this column. What does it hold?",
    answer=int(sums["best"]),
    hint="Could a maximum forget its largest value, if all it stores is that value?",
    why="90: it keeps only the largest value, so it cannot know the second largest. The option admits it.",
)
best

# %%
answer = None  # which maximum?
best.check(answer)

# %%
assert sums == {"sold": "15", "best": "90"}
assert "9 + 4 + 6 − 4 = 15" in counter.model.steps[0].why
counter

# %% [markdown]
# Without that option the engine refuses the merge instead of giving a wrong answer, and says what helps.

# %%
strict = {key: value for key, value in adding.items() if "ignore" not in key}
refused = widgets.MergeView.of(sales, "aggregation", primary_key="product", options=strict)
assert refused.model.steps[0].fate == "refused"
assert "ignore-retract" in refused.model.steps[0].why
print(refused.model.steps[0].why)

# %% [markdown]
# ## Row by row
#
# You can feed an engine one row after another and look at the state after each. Step back through the
# events with ←; feed your own in the next cell.

# %%
played = widgets.MergeView.of_events(
    [
        {"product": 1, "sold": 9, "best": 80},
        {"product": 1, "sold": 4, "best": 90},
        {"product": 1, "sold": 4, "best": 90, "rowkind": "-D"},
    ],
    "aggregation",
    primary_key="product",
    options={"aggregation": adding},
)
assert [step.values["sold"] for step in played.model.steps] == ["9", "13", "9"]
played

# %%
played.feed({"product": 1, "sold": 6, "best": 70})
assert played.model.steps[-1].values == {"sold": "15", "best": "90"}
print(played.text())

# %% [markdown]
# ## A real table
#
# The engine is an option of the table. Every writer, compaction and reader then merges by it.

# %%
lake = course.lake(warehouse, seed=seed)
table = course.orders_table(
    lake, {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}, name="shop.totals"
)
batch = course.orders(6, seed=seed)
for _ in range(3):
    table.write(batch)
total = sum(batch["amount"].to_pylist())
found = sum(table.scan().to_arrow()["amount"].to_pylist())
assert found == 3 * total, "readers add up"
table.compact(full=True)
assert sum(table.scan().to_arrow()["amount"].to_pylist()) == found, "compaction changes no row"
assert table.inspect.levels()["rows"].to_pylist() == [6]

# %% [markdown]
# What if the same rows were in a table with another engine? The picture can show that without writing
# anything: choose another engine above it.

# %%
table.write(batch)
whole = widgets.MergeView(table, columns=["amount", "status"])
whole

# %%
assert whole.engine == "aggregation"
amount = int(whole.model.steps[0].values["amount"])
assert amount == 4 * batch["amount"][0].as_py()
whole.engine = "first-row"  # as if
assert int(whole.model.steps[0].values["amount"]) == 3 * batch["amount"][0].as_py(), (
    "L5 holds the sum of three"
)
whole.engine = "aggregation"
assert table.check() == [], "the table is sound"
course.progress()

# %% [markdown]
# ## What to remember
#
# - `deduplicate` and `first-row` choose a whole row; `partial-update` and `aggregation` go column by column.
# - In partial-update null means *nothing to say*, but in a sequence group the winning row speaks for all.
# - A sequence group's clock decides, so late rows of one source cannot undo another.
# - A −D takes values back where a function can; where it cannot, the engine refuses, unless an option lets it
#   ignore the −D.
#
# ## Two questions to try
#
# 1. Give two rows of a group the same clock. Which one wins, and does the picture say why?
# 2. Replace `sum` by `product`, `listagg` or `last_value`. Which of them take a −D back?
#
# Next: **11 · Pruning**, why a query reads what it reads.
