"""Scalars.

Generated from the schema by `python -m aliquot_schema.graphql.client_codegen`; do not edit.
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
    """Name."""
    value: str
    """Value."""


class SlotAmount(Struct, frozen=True, kw_only=True):
    """An amount of a slot."""

    slot: str
    """Name of the slot, like `cpu` or `cuda.shares`."""
    amount: str
    """A decimal number, a size with a binary suffix, or `unlimited`."""


class SlotGrant(Struct, frozen=True, kw_only=True):
    """A kernel's allocation of one slot, by device."""

    slot: str
    """Name of the slot."""
    devices: tuple[DeviceAmount, ...]
    """The devices with the amount allocated on each."""
