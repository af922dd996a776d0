"""Scale factors: which are accepted, and the counts that follow from one.

Only multiples of 0.001 below 1 and whole numbers from 1 on: there the generators agree byte for byte.
Pure. Used by everything in `datasets`.
"""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Literal

from datasets.errors import DatasetError

MAX_SCALE_FACTOR = 10_000
MAX_SET = 999
Sizes = Literal["dbgen", "spec"]
ScaleFactor = int | float | str | Decimal


@dataclass(frozen=True, slots=True)
class Scale:
    """A checked scale factor, in thousandths."""

    thousandths: int

    @classmethod
    def of(cls, scale_factor: "ScaleFactor | Scale") -> "Scale":
        """The scale for a number or its text; raises DatasetError for any other value."""
        if isinstance(scale_factor, Scale):
            return scale_factor
        try:
            value = Decimal(str(scale_factor)) * 1000
        except InvalidOperation:
            value = Decimal("NaN")
        whole = value.is_finite() and value == value.to_integral_value()
        if not whole or not 1 <= value <= MAX_SCALE_FACTOR * 1000 or (value > 1000 and value % 1000):
            raise DatasetError(
                f"scale factor {scale_factor}: use a multiple of 0.001 below 1, or a whole number from 1 to "
                f"{MAX_SCALE_FACTOR}"
            )
        return cls(int(value))

    def __str__(self) -> str:
        return f"{Decimal(self.thousandths) / 1000:f}"

    def count(self, at_one: int) -> int:
        """A table's size, given its size at scale factor 1."""
        return max(1, self.thousandths * at_one // 1000)

    @property
    def orders(self) -> int:
        return self.count(1_500_000)

    @property
    def customers(self) -> int:
        return self.count(150_000)

    @property
    def parts(self) -> int:
        return self.count(200_000)

    @property
    def suppliers(self) -> int:
        return self.count(10_000)

    @property
    def clerks(self) -> int:
        return 1000 * max(1, self.thousandths // 1000)

    def refresh_orders(self, sizes: Sizes) -> int:
        """Orders of one refresh set: as dbgen cuts them (0 below scale factor 0.007), or as specified."""
        if sizes == "spec":
            return max(1, 1500 * self.thousandths // 1000)
        if sizes != "dbgen":
            raise DatasetError(f'sizes {sizes!r}: use "dbgen" or "spec"')
        if self.thousandths < 1000:
            return 10 * (self.orders // 10_000)
        return 1500 * (self.thousandths // 1000)
