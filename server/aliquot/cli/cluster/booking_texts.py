"""Texts of bookings: what is booked, from when until when, and which bookings have GPUs of an agent."""

from datetime import datetime
from typing import TYPE_CHECKING

from aliquot.cli.connection.output import printable

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.agents import Agent
    from aliquot.client.generated.bookings import Booking


def described(booking: "Booking") -> str:
    """Name, window and devices of a booking, in one line."""
    return (
        f"{printable(booking.name)}: {what(booking)}, {local_text(booking.starts_at)} to {local_text(booking.ends_at)}"
    )


def what(booking: "Booking") -> str:
    """The GPUs of a booking by node, or the nodes under maintenance."""
    if booking.nodes:
        return f"maintenance of {', '.join(map(printable, booking.nodes))}"
    by_node: dict[str, list[str]] = {}
    for one in booking.devices:
        by_node.setdefault(one.hostname, []).append(one.name)
    places = "; ".join(f"{printable(node)} {' '.join(map(printable, names))}" for node, names in by_node.items())
    count = "1 GPU" if booking.gpus == 1 else f"{booking.gpus} GPUs"
    return f"{count} ({places})" if places else count


def local_text(at: datetime) -> str:
    """A time in the zone of the reader, to the minute."""
    return f"{at.astimezone():%Y-%m-%d %H:%M}"


def bookings_on(client: "BlockingClient", agent: "Agent") -> "list[Booking]":
    """The open bookings with GPUs of an agent, the earliest first."""
    own = {(agent.node_id, device.id) for device in agent.devices}
    return [one for one in client.reservations() if any((gpu.node_id, gpu.device_id) in own for gpu in one.devices)]
