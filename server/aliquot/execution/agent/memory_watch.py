"""The watchdog: kernels that take more memory of an accelerator than they were given are flagged, or stopped."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aliquot.execution.agent.gpu_memory import MemoryUse
from aliquot_schema.ids import KernelId

STRIKES: Final = 2
"""Measurements in a row that must agree: one alone may fall into the moment in which a process ends."""
CODE: Final = "over_memory"


class MemoryPolicy(StrEnum):
    """What is done about a kernel that takes more than its share."""

    OFF = "off"
    FLAG = "flag"
    """It is said of the kernel, for everybody to see."""
    STOP = "stop"
    """It is said, and the kernel is asked to end, and made to after its grace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryVerdict:
    """Something about a kernel has changed."""

    kernel_id: KernelId
    words: str | None
    """What it takes too much of; None = it keeps to its share again."""


@dataclass(slots=True)
class MemoryWatch:
    """Remembers from measurement to measurement. Never judges what could not be attributed."""

    _strikes: dict[KernelId, int] = field(default_factory=dict)
    _flagged: set[KernelId] = field(default_factory=set)

    def judge(self, uses: Sequence[MemoryUse]) -> list[MemoryVerdict]:
        """What follows from a measurement. A kernel of which it tells nothing is left as it is judged."""
        by_kernel: dict[KernelId, list[MemoryUse]] = {}
        for use in uses:
            by_kernel.setdefault(use.kernel_id, []).append(use)
        verdicts = (self._judge(kernel_id, found) for kernel_id, found in by_kernel.items())
        return [verdict for verdict in verdicts if verdict is not None]

    def forget(self, known: set[KernelId]) -> None:
        """Keep nothing of kernels but these."""
        self._strikes = {kernel_id: count for kernel_id, count in self._strikes.items() if kernel_id in known}
        self._flagged &= known

    def _judge(self, kernel_id: KernelId, uses: list[MemoryUse]) -> MemoryVerdict | None:
        over = [use for use in uses if use.is_over]
        self._strikes[kernel_id] = self._strikes.get(kernel_id, 0) + 1 if over else 0
        if self._strikes[kernel_id] == STRIKES:
            self._flagged.add(kernel_id)
            return MemoryVerdict(kernel_id=kernel_id, words="; ".join(map(_words, over)))
        if not over and kernel_id in self._flagged:
            self._flagged.remove(kernel_id)
            return MemoryVerdict(kernel_id=kernel_id, words=None)
        return None


def memory_text(size: int) -> str:
    """A size for people, rounded."""
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"


def _words(use: MemoryUse) -> str:
    if use.granted_bytes == 0:
        return f"takes {memory_text(use.used_bytes)} of {use.device_id}, which it was not given"
    return f"takes {memory_text(use.used_bytes)} of {use.device_id}, and was given {memory_text(use.granted_bytes)}"
