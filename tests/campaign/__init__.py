"""The campaign: attacks on tables that run for as long as one likes (`./workbench test --campaign 30m`).

Each kind of attack is one module with `run(seed, folder) -> Outcome`: a few seconds of work that the seed
decides. `kinds.py` lists them, `__main__.py` runs them in turn until the time is up and prints one page.
"""
