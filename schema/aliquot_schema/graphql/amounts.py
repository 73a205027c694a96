"""Amounts, grants and pairs of name and value."""

import strawberry


@strawberry.type(description="An amount of a slot.")
class SlotAmount:
    slot: str = strawberry.field(description="The slot's name, like `cpu` or `cuda.shares`.")
    amount: str = strawberry.field(description="A decimal number, a size with a binary suffix, or `unlimited`.")


@strawberry.type(description="An amount on one device.")
class DeviceAmount:
    device_id: strawberry.ID = strawberry.field(description="The device.")
    amount: str = strawberry.field(description="A decimal number, or a size with a binary suffix.")


@strawberry.type(description="What a kernel was given of one slot, device by device.")
class SlotGrant:
    slot: str = strawberry.field(description="The slot's name.")
    devices: list[DeviceAmount] = strawberry.field(description="The devices, with what was given of each.")


@strawberry.type(description="A tag, an environment variable or an attribute.")
class NameValue:
    name: str = strawberry.field(description="Its name.")
    value: str = strawberry.field(description="Its value.")
