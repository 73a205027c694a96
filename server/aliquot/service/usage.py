"""What was used, by project and user, as people see it."""

from typing import Final

from aliquot.core.fairshare import Usage
from aliquot_schema.admin_views import UsageView

HOUR: Final = 1000 * 3_600_000
"""Of a whole device, in milli of it x milliseconds."""


def usage_views(
    usage: Usage, *, user: str | None = None, project: str | None = None, now_us: int
) -> tuple[UsageView, ...]:
    """By project and user; those who ever held something, or of these one user or one project."""
    decayed = usage.used_at(now_us)
    total = sum(decayed.values())
    found = []
    for place in sorted(usage.balances):
        if (project is None or place[0] == project) and (user is None or place[1] == user):
            balance = usage.balances[place].held(0, now_us=now_us, half_life_ms=usage.half_life_ms)
            found.append(
                UsageView(
                    project=place[0],
                    user=place[1],
                    gpu_hours=balance.charged / HOUR,
                    gpu_hours_month=balance.month_charged / HOUR,
                    gpu_hours_decayed=balance.used / HOUR,
                    share=decayed.get(place, 0) / total if total else 0.0,
                )
            )
    return tuple(found)
