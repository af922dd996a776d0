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
# **One idea: the merge engine says how the rows of a key become one row, and the result is the same however
# many runs each compaction takes.**
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

course.begin("10 Merge engines", solve=solve)
course.check()

# %%
import widgets


def grid(**runs):
    """Runs and their columns, to click one value in each column."""
    columns = next(iter(runs.values())).keys()
    return course.Grid(
        tuple(columns),
        tuple(
            (
                run,
                tuple(
                    course.Cell(
                        "null" if value is None else str(value),
                        f"{run} {column}",
                        group=column,
                        tone="null" if value is None else "plain",
                    )
                    for column, value in row.items()
                ),
            )
            for run, row in runs.items()
        ),
    )


def origins(step, runs, columns):
    """The cell that each column's value is from, by the engine."""
    return course.Each(
        tuple(f"{runs[step.origins[column].run]} {column}" for column in columns),
        ", ".join(str(step.values[column] or "null") for column in columns),
    )


# %% [markdown]
# ## The same rows through four engines
#
# One source knows the stock, the other the price. What it does not know is null.

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
names = ("newest", "middle", "oldest")
values = ("name", "stock", "price")
three = {run: {column: row[0][column] for column in values} for run, row in zip(names, runs, strict=True)}
dedup = course.task(
    "deduplicate",
    "The engine is **deduplicate**. What is the product's **price** after the merge? The newest run "
    "has null, "
    "the middle one 30, the oldest 25.",
    options=["30", "25", "null"],
    answer=results["deduplicate"]["price"] or "null",
    wrong={
        "30": "that price is of the middle run, and rows are taken whole.",
        "25": "that price is of the oldest run, which loses.",
        "null": "a null would have to be in the newest row.",
    },
    hint="Deduplicate takes whole rows. Which row is the newest, and what is its price?",
    why="The newest row wins whole, with its nulls. For sources that know only a part, that loses the rest.",
)
dedup

# %% jupyter={"source_hidden": true}
updated = widgets.MergeView.of(runs, "partial-update", primary_key="product").model.steps[0]
partial = course.task(
    "partial-update",
    "The engine is **partial-update**. **Click, in each column, the value that comes out.**",
    answer=origins(updated, names, values),
    picture=grid(**three),
    hint="Go column by column, from the newest run down, and take the first value that is not null.",
    why="Each column has its newest value that is not null: two of the middle run, the stock of the newest.",
)
partial

# %% jupyter={"source_hidden": true} tags=["check:parts_and_first_rows"]
view.engine = "partial-update"
partial.then(view, "Switch the engine above the picture and watch which boxes are kept.")

# %% [markdown]
# ## Out of order: sequence groups
#
# Two sources have two clocks. A **sequence group**, `fields.<clock>.sequence-group = <columns>`, gives a set
# of columns its own clock: a row changes them only if its clock is not behind. And *then null counts*.

# %% jupyter={"source_hidden": true}
late = [{"id": 45, "s_at": 17, "stock": 2, "shelf": None, "p_at": None, "price": None}]
second = [{"id": 45, "s_at": 21, "stock": 7, "shelf": None, "p_at": 3, "price": 10}]
first = [{"id": 45, "s_at": 12, "stock": 5, "shelf": "B4", "p_at": 8, "price": 12}]
groups = {"fields.s_at.sequence-group": "stock,shelf", "fields.p_at.sequence-group": "price"}
clocks = widgets.MergeView.of([late, second, first], "partial-update", primary_key="id", options=groups)
step = clocks.model.steps[0]
guarded = ("stock", "shelf", "price")
stock = course.task(
    "three columns, two clocks",
    "`s_at` guards `stock` and `shelf`, `p_at` guards `price`. **Click, in each of the three "
    "columns, the value "
    "that comes out.**",
    answer=origins(step, names, guarded),
    picture=course.Grid(
        ("s_at", "stock", "shelf", "p_at", "price"),
        tuple(
            (
                run,
                tuple(
                    course.Cell(
                        "null" if row[column] is None else str(row[column]),
                        f"{run} {column}" if column in guarded else "",
                        group=column if column in guarded else "",
                        tone="null" if row[column] is None else "plain",
                    )
                    for column in ("s_at", "stock", "shelf", "p_at", "price")
                ),
            )
            for run, (row,) in zip(names, (late, second, first), strict=True)
        ),
    ),
    hint="In each group, which row has the largest clock? That row speaks for all columns of its group.",
    why="`s_at` 21 is the largest: the run that arrived last is late, and the winning row says null for the "
    "shelf, so null it is. `p_at` 8 > 3: for the price the oldest run wins.",
)
stock

# %% jupyter={"source_hidden": true} tags=["check:a_clock_for_each_part"]
stock.then(
    clocks,
)

# %% [markdown]
# ## Aggregation, and retractions
#
# Each row is a sale, and `aggregation` gives every column a function. If a sale is cancelled, a −D
# **retracts** its value, takes it back. Some functions can do that, some cannot.

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
    options=[6, 15, 19, 23],
    wrong={
        6: "that is the last sale alone; a sum keeps the others.",
        15: "one of the sales would have to be gone.",
        19: "that is the sum of all sales, and one of them was cancelled.",
        23: "the −D was added, and it takes away.",
    },
    hint="Add the three, then take back one.",
    why="9 + 4 + 6 − 4 = 15: a sum can be taken back, since subtracting undoes adding.",
)
sold

# %% jupyter={"source_hidden": true}
best = course.task(
    "a maximum taken back",
    "`best` is a **max**: 80, then 90, then 70; the sale with 90 is the one that was cancelled. "
    "The table ignores retractions of this column. What does it hold?",
    answer=int(sums["best"]),
    options=[70, 80, 90],
    wrong={
        70: "it is the newest value, and a maximum does not go by time.",
        80: "to fall back to it the table would have to know it, and it keeps one value.",
        90: "that sale was cancelled.",
    },
    hint="Could a maximum forget its largest value, if all it stores is that value?",
    why="90: it keeps only the largest value, so it cannot know the second largest. The option admits it.",
)
best

# %% jupyter={"source_hidden": true} tags=["check:sums_and_largest"]
best.then(
    counter,
)

# %% jupyter={"source_hidden": true} tags=["check:refused_where_it_would_be_wrong"]
strict = {key: value for key, value in adding.items() if "ignore" not in key}
refused = widgets.MergeView.of(sales, "aggregation", primary_key="product", options=strict)
best.then(
    refused.model.steps[0].why, "Without that option the engine refuses instead of giving a wrong answer."
)

# %% [markdown]
# ## Row by row
#
# One row after another; ← steps back.

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
played

# %% jupyter={"source_hidden": true} tags=["check:fed_step_by_step"]
played.feed({"product": 1, "sold": 6, "best": 70})
print(played.text())

# %% [markdown]
# ## A real table
#
# Every writer, compaction and reader merges by the engine of the table.

# %% tags=["check:readers_add_up"]
lake = course.lake(warehouse, seed=seed)
table = course.orders_table(
    lake, {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}, name="shop.totals"
)
batch = course.orders(6, seed=seed)
for _ in range(3):
    table.write(batch)
total = sum(batch["amount"].to_pylist())
found = sum(table.scan().to_arrow()["amount"].to_pylist())
table.compact(full=True)

# %% [markdown]
# What if it had another engine? Choose one above the picture.

# %%
table.write(batch)
whole = widgets.MergeView(table, columns=["amount", "status"])
whole

# %% jupyter={"source_hidden": true} tags=["check:as_another_engine"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - `deduplicate` and `first-row` choose a whole row; `partial-update` and `aggregation` go column by column.
# - In partial-update null means *nothing to say*; in a sequence group the row with the largest clock speaks
#   for all its columns, so late rows of one source cannot undo another.
# - A −D takes values back where a function can; where it cannot, the engine refuses, unless an option lets it
#   ignore the −D.
#
# ## Two questions to try
#
# 1. Give two rows of a group the same clock. Which one wins, and does the picture say why?
# 2. Replace `sum` by `product`, `listagg` or `last_value`. Which of them take a −D back?
#
# Next: **11 · Pruning**, why a query reads what it reads.
