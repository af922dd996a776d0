"""Connectors: what temporary tables read from and write to. `registry.py` names them; a new one is a module
and a line there. `connector.py` is what each is made of."""
