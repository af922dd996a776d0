"""Write, read and space amplification: what flushes and compactions wrote, what is live, what a read opens.

`ledger.py` keeps the account of each bucket and adds accounts up, `views.py` makes the tables of
`inspect.amplification`. What the next compactions would make of the three: `explain/forecast.py`.
"""
