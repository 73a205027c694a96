"""GPUs as a plain number, in the slots of the cluster."""

from decimal import Decimal, InvalidOperation

from aliquot.service.state import State
from aliquot_schema.errors import InvalidAmount
from aliquot_schema.slots import is_accelerator


def gpu_slots(state: State, count: str) -> tuple[tuple[str, str], ...]:
    """Whole devices for a whole number, shares for any other, one CPU for none. Of several kinds `cuda` is meant.

    Raises:
        InvalidAmount: it is no number, or less than none.
    """
    try:
        amount = Decimal(count)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise InvalidAmount(f"gpu_count: {count[:32]} is no number of GPUs", slot="gpu_count", amount=count[:32])
    if amount == 0:
        return (("cpu", "1"),)
    kinds = sorted({name.partition(".")[0] for name in state.slots if is_accelerator(name)})
    kind = "cuda" if "cuda" in kinds or not kinds else kinds[0]
    if amount == amount.to_integral_value():
        return ((f"{kind}.device", str(int(amount))),)
    return ((f"{kind}.shares", str(amount)),)
