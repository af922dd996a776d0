"""The refresh functions: RF1 inserts new orders with their lines, RF2 deletes base orders with theirs.

Set s of c orders takes indexes (s-1)*c + 1 … s*c of one endless sequence; the size only says where it is cut.
Of every 32 order keys 8 belong to each of four slots: base rows fill slot 0, inserts of sets 1..999 slot 1,
deletes empty slot 0 from its low end. Inserted row t is what the generator would give for order row N + t.
With sizes="dbgen" the files equal those of `dbgen -U` byte for byte. Used by `cdc` and by the command line.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datasets.errors import DatasetError
from datasets.tpch.rows import OrderRows, make
from datasets.tpch.scale import MAX_SET, Scale, ScaleFactor, Sizes


def order_keys(index: NDArray[np.int64], slot: int) -> NDArray[np.int64]:
    """Order keys of 1-based indexes in one of the four slots of each 32 keys."""
    return ((index >> 3) << 5) + (slot << 3) + (index & 7)


@dataclass(frozen=True)
class Refresh:
    """One refresh set. Columns are computed when first asked for; immutable, so safe to share."""

    scale: Scale
    set: int
    sizes: Sizes

    @property
    def count(self) -> int:
        """Orders inserted, and orders deleted."""
        return self.scale.refresh_orders(self.sizes)

    @cached_property
    def inserted(self) -> OrderRows:
        """RF1: the new orders and their lines."""
        index = self._index()
        return make(self.scale, self.scale.orders + index - 1, order_keys(index, 1))

    @cached_property
    def deleted(self) -> OrderRows:
        """RF2: the base orders that vanish and their lines, as they were (all columns)."""
        index = self._index()
        return make(self.scale, index - 1, order_keys(index, 0))

    @property
    def orders(self) -> pa.RecordBatch:
        return self.inserted.orders

    @property
    def lineitem(self) -> pa.RecordBatch:
        return self.inserted.lineitem

    @property
    def deleted_orders(self) -> pa.RecordBatch:
        return self.deleted.orders

    @property
    def deleted_lineitem(self) -> pa.RecordBatch:
        return self.deleted.lineitem

    @property
    def delete_keys(self) -> pa.Int64Array:
        """Order keys that RF2 deletes, ascending; cheap, no rows are made."""
        return pa.array(order_keys(self._index(), 0))

    def _index(self) -> NDArray[np.int64]:
        return (self.set - 1) * self.count + np.arange(1, self.count + 1)


def refresh(scale_factor: ScaleFactor | Scale, set: int, *, sizes: Sizes = "dbgen") -> Refresh:
    """Refresh set `set` (1..999). With sizes="dbgen" empty below scale factor 0.007, as dbgen's."""
    scale = Scale.of(scale_factor)
    if not isinstance(set, int) or not 1 <= set <= MAX_SET:
        raise DatasetError(f"refresh set {set}: use 1 to {MAX_SET}; later sets delete keys that do not exist")
    scale.refresh_orders(sizes)
    return Refresh(scale, set, sizes)


def tbl(batch: pa.RecordBatch) -> bytes:
    """Rows as dbgen prints them: each value followed by a bar, quantities without decimals."""
    if not batch.num_rows:
        return b""
    printed = {"l_quantity": pa.int64()}
    columns = [
        batch[name].cast(printed.get(name, batch[name].type)).cast(pa.string()) for name in batch.schema.names
    ]
    lines = pc.binary_join_element_wise(*columns, "\n", "|")
    ends = np.frombuffer(lines.buffers()[1], np.int32)
    return lines.buffers()[2].slice(0, int(ends[len(lines)])).to_pybytes()


def write_files(refresh_set: Refresh, directory: Path) -> list[Path]:
    """`orders.tbl.uN`, `lineitem.tbl.uN`, `delete.N`; an empty set has the last one only, as with dbgen."""
    directory.mkdir(parents=True, exist_ok=True)
    number = refresh_set.set
    contents = {f"delete.{number}": tbl(pa.record_batch([refresh_set.delete_keys], ["key"]))}
    if refresh_set.count:
        contents[f"orders.tbl.u{number}"] = tbl(refresh_set.orders)
        contents[f"lineitem.tbl.u{number}"] = tbl(refresh_set.lineitem)
    written = []
    for name, content in contents.items():
        path = directory / name
        temporary = path.with_name(f".{name}.writing")
        temporary.write_bytes(content)
        temporary.replace(path)
        written.append(path)
    return written
