"""What was expected and what was seen, side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

OK_CODE = 0
FAILED_CODE = 1
NO_GPU_CODE = 2


class Outcome(StrEnum):
    """How the two compare."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"
    """It could not be tried here; `seen` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was tried."""

    name: str
    expected: str
    seen: str
    outcome: Outcome


def compared(name: str, *, expected: str, seen: str) -> Finding:
    """A finding that is fine when both texts are the same."""
    outcome = Outcome.OK if expected == seen else Outcome.FAIL
    return Finding(name=name, expected=expected, seen=seen, outcome=outcome)


def exit_code(findings: Sequence[Finding]) -> int:
    """0 when nothing failed, 1 when something did, 2 when there was nothing to try."""
    if not findings:
        return NO_GPU_CODE
    return FAILED_CODE if any(finding.outcome is Outcome.FAIL for finding in findings) else OK_CODE
