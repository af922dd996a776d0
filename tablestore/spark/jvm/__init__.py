"""Classes that run in Spark's driver: Java text, compiled there by the compiler that Spark brings.

They are Spark's own extension points, which Python cannot reach. Executors never see them.
"""

from __future__ import annotations

from importlib import resources
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

_loaded: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()  # by the gateway to a JVM


def load(spark: SparkSession, name: str) -> Any:
    """The class `name` of this folder, as `java.lang.Class`."""
    gateway: Any = spark.sparkContext._gateway
    classes = _loaded.setdefault(gateway, {})
    if name not in classes:
        spaces = gateway.jvm
        compiler = spaces.org.codehaus.janino.SimpleCompiler()
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        compiler.setParentClassLoader(spaces.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(resources.files(__name__).joinpath(f"{name}.java").read_text(encoding="utf-8"))
        classes[name] = compiler.getClassLoader().loadClass(f"tablestore.spark.{name}")
    return classes[name]


def new(spark: SparkSession, name: str) -> Any:
    """A new object of the class `name`, which takes no arguments."""
    gateway: Any = spark.sparkContext._gateway
    nothing = gateway.new_array(gateway.jvm.java.lang.Object, 0)
    return load(spark, name).getConstructors()[0].newInstance(nothing)


def frame(spark: SparkSession, method: str, *arguments: Any) -> DataFrame:
    """The frame that a method of `TableFrames` makes."""
    session: Any = spark
    frames = new(spark, "TableFrames")
    return DataFrame(getattr(frames, method)(session._jsparkSession, *arguments), session)
