"""SQL over tables: statements → the verbs of `Lake`, `Table` and `Scan`; queries by DuckDB or Spark.

`dialect/` reads text · `forms.py` is the grammar · `statements/` carry out · `query/` computes SELECT.
"""

from tablestore.core.extras import required

required("sqlglot", by="tablestore.sql")
required("duckdb", by="tablestore.sql")

from tablestore.sql.forms import sql_session
from tablestore.sql.problems import SqlProblem
from tablestore.sql.result import Result
from tablestore.sql.session import Session

__all__ = ["Result", "Session", "SqlProblem", "sql_session"]
