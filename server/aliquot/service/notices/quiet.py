"""Quiet hours: a time of each day in which what is not critical waits."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """From one time of the day to another, which may be on the next day."""

    begin: time
    end: time
    zone: tzinfo

    def until(self, now: datetime) -> datetime | None:
        """When they end; None when it is not quiet at this time."""
        local = now.astimezone(self.zone)
        at = local.time()
        if self.begin <= self.end:
            is_quiet, days = self.begin <= at < self.end, 0
        else:
            is_quiet, days = at >= self.begin or at < self.end, int(at >= self.begin)
        if not is_quiet:
            return None
        # In the hour that comes twice a year, the end that is meant is that of the same hour.
        end = self.end.replace(fold=local.fold)
        return datetime.combine(local.date() + timedelta(days=days), end, tzinfo=self.zone)
