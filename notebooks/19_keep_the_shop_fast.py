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
# # 19 · Keep the shop fast
#
# A game. Orders stream in, a tick at a time. You are the one who compacts. Keep four budgets until tick 90:
# **reads** (runs that a reader asks), **writes** (bytes written for each that came in), **space** (bytes
# stored for each that is live), **stalls** (ticks in which writers wait). Two ghosts play the same orders:
# one by universal rules, one by leveled ones.

# %% tags=["parameters"]
seed = 7
solve = False

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
import widgets

game = widgets.ShopGame(1, seed=seed)
game

# %% [markdown]
# | key | move | what it does |
# |---|---|---|
# | Space, T | clock, one tick | X: twice as fast |
# | F | flush | the orders in memory become a run; full memory makes writers wait |
# | S | step | the compaction that the engine's rules pick; readers gain when the disk has done it |
# | − + | trigger | how many runs a rule waits for; writers wait at three more |
# | C | full | merges all runs: slow, and for a while both copies are stored, but deletes go |
# | L | strategy | universal or leveled |
# | B | buckets × 2 | rewrites all: dear late; twice as many disks work, but who scans asks every bucket |
#
# Each budget gives 250 points, half of them when it is used up. Stages: skew, deletes, a hot article, a slow
# disk, a nightly reload. The log has the engine's own reasons.
#
# Stuck? Few large flushes beat many small ones. No recipe wins everywhere: a stage wants a high trigger
# before a rush, another leveled rules, another deletes that go. Look which budgets are small.


# %% jupyter={"source_hidden": true} tags=["check:a_sensible_player_wins"]
def sensible(game):
    """Plays a stage to its end: large flushes, a trigger of 4, a step whenever one is due."""
    while not game.model.over:
        if game.model.waiting + 1_000 > 4_000:
            game.move("flush")
        if game.model.trigger > 4:
            game.move("lower")
        if not game.model.refusals["step"]:
            game.move("step")
        game.advance()
    return game.model.verdict


if solve:
    print(sensible(game))

# %% [markdown]
# ## Show it to others
#
# `game.to_html("my_game.html")` writes one file that plays your moves back in any browser, without a kernel.
# `game.code` is the call that gives this very game again, as text: send it, and others go on from there.
#
# ## Controls of your own
#
# What a view shows are its traits, so any control of **ipywidgets** drives them and reads them. Here `link`
# joins a slider and the stage of the game, in both directions; `interact` says what the chosen stage is.

# %%
from ipywidgets import IntSlider, interact, link

stage = IntSlider(game.stage, min=1, max=5, description="stage")
link((stage, "value"), (game, "stage"))


def chosen(stage):
    print(f"stage {stage}, {game.shop.stage.name}: {game.shop.stage.says}")


_ = interact(chosen, stage=stage)

# %% [markdown]
# ## Two questions to try
#
# 1. Win stage 4 with more buckets. Why do the same moves lose stage 1?
# 2. Write a better `sensible`: can a function beat you at stage 5?
#
# Back to **00 · Start here**.
