"""Amounts.

Made from the schema by `python -m aliquot_schema.graphql.client_code`; not to be edited.
"""

from msgspec import Struct


class DeviceAmount(Struct, frozen=True, kw_only=True):
    """An amount on one device."""

    device_id: str
    """The device."""
    amount: str
    """A decimal number, or a size with a binary suffix."""


class NameValue(Struct, frozen=True, kw_only=True):
    """A tag, an environment variable or an attribute."""

    name: str
    """Its name."""
    value: str
    """Its value."""


class SlotAmount(Struct, frozen=True, kw_only=True):
    """An amount of a slot."""

    slot: str
    """The slot's name, like `cpu` or `cuda.shares`."""
    amount: str
    """A decimal number, a size with a binary suffix, or `unlimited`."""


class SlotGrant(Struct, frozen=True, kw_only=True):
    """What a kernel was given of one slot, device by device."""

    slot: str
    """The slot's name."""
    devices: tuple[DeviceAmount, ...]
    """The devices, with what was given of each."""
