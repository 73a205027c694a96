"""Sessions of the acceptance run: twelve of mixed sizes, with thirteen kernels, too many to run at the same time."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from aliquot_schema.states import SessionState

PRINT_DEVICES: Final = 'echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"'
READY: Final = "waiting to be stopped"
FAILING_EXIT_CODE: Final = 7

WORK: Final = f"{PRINT_DEVICES}; sleep 1.2"
FAIL: Final = f"{PRINT_DEVICES}; sleep 1; exit {FAILING_EXIT_CODE}"
RESIST: Final = (
    f"trap 'echo stopping; sleep 1.5; exit 0' TERM; {PRINT_DEVICES}; echo '{READY}'; while :; do sleep 0.1; done"
)
"""Takes 1.5 s to stop after SIGTERM, so that its devices can be seen held meanwhile."""


class Task(Struct, frozen=True, kw_only=True):
    """A session to submit, and how it must end."""

    name: str
    slots: Mapping[str, str]
    cluster_size: int = 1
    script: str = WORK
    ends: SessionState = SessionState.COMPLETED
    exit_code: int | None = 0
    """None: not reported, as for a canceled session."""

    @property
    def asked(self) -> str:
        """The request as text: `0.25`, `2 x 8`."""
        amount = next(iter(self.slots.values()))
        return amount if self.cluster_size == 1 else f"{self.cluster_size} x {amount}"


def _shares(amount: str) -> dict[str, str]:
    return {"cuda.shares": amount}


def _devices(count: int) -> dict[str, str]:
    return {"cuda.device": str(count)}


RESISTING: Final = Task(name="canceled", slots=_devices(1), script=RESIST, ends=SessionState.CANCELED, exit_code=None)

TASKS: Final = (
    Task(name="quarter-1", slots=_shares("0.25")),
    Task(name="half", slots=_shares("0.5")),
    RESISTING,
    Task(name="pair-1", slots=_devices(2)),
    Task(name="quarter-2", slots=_shares("0.25")),
    Task(name="node-1", slots=_devices(8)),
    Task(
        name="failing",
        slots=_shares("0.5"),
        script=FAIL,
        ends=SessionState.FAILED,
        exit_code=FAILING_EXIT_CODE,
    ),
    Task(name="single", slots=_devices(1)),
    Task(name="gang", slots=_devices(8), cluster_size=2),
    Task(name="quarter-3", slots=_shares("0.25")),
    Task(name="pair-2", slots=_devices(2)),
    Task(name="node-2", slots=_devices(8)),
)
"""In the order of submission. The gang needs the whole cluster: it waits until the canceled one's processes end."""
