"""Numbers that came as JSON, as decimal text."""

from decimal import Decimal


def decimal_text(number: float) -> str:
    """A number as it was written, without an exponent; what is no number stays the word for it."""
    return format(Decimal(repr(float(number))).normalize(), "f")
