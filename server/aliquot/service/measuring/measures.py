"""Measures: what one server counts of the cluster while it leads."""

from aliquot.service.measuring.device_time import DeviceTime
from aliquot.service.measuring.pass_counts import PassMeasures
from aliquot.service.measuring.promises import Promises
from aliquot.service.measuring.session_counts import SessionCounts
from aliquot_schema.events import Event
from aliquot_schema.sessions import Session


class Measures:
    """Filled by the log, the allocator and the readings of agents."""

    def __init__(self) -> None:
        self.sessions = SessionCounts()
        self.passes = PassMeasures()
        self.promises = Promises()
        self.devices = DeviceTime()

    def take(self, event: Event) -> None:
        """Take in what happened while this server leads."""
        self.sessions.take(event)
        if event.kind == "session.scheduled" and isinstance(event.record, Session):
            self.promises.start(event.record)

    def end_term(self) -> None:
        """Another server leads. What was counted so far stays; what was under way is not known here any more."""
        self.promises.forget()
        self.devices.clear()
