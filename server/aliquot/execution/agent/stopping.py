"""What is asked of a kernel that may run: to end, or to take a signal. Blocks on the disk."""

import os
from pathlib import Path

from aliquot.execution.agent.held_kernel import HeldKernel
from aliquot.execution.agent.shim_process import ask_to_forward, ask_to_stop
from aliquot.execution.agent.standing import Sight, Standing, look


def close_or_ask(kernel: HeldKernel, *, boot_id: str, grace_ms: int, drafts: Path) -> bool:
    """Be first with the claim, so that no start can win; else ask the shim that was. False when no shim was asked."""
    if kernel.folder.close_to_starts({"by": "stop"}, drafts=drafts):
        return False
    sight = _look(kernel, boot_id)
    if sight.standing is not Standing.ALIVE or sight.claim is None:
        return False
    return ask_to_stop(kernel.folder, sight.claim, grace_ms=grace_ms)


def stop_with_words(kernel: HeldKernel, words: str, *, boot_id: str, grace_ms: int) -> None:
    """Have a kernel that runs end, and say why where its owner looks: below what it printed."""
    sight = _look(kernel, boot_id)
    if sight.standing is not Standing.ALIVE or sight.claim is None:
        return
    with open(
        os.open(kernel.folder.output, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW), "a", encoding="utf-8"
    ) as output:
        output.write(f"\naliquot: stopped, since it {words}\n")
    ask_to_stop(kernel.folder, sight.claim, grace_ms=grace_ms)


def forward(kernel: HeldKernel, *, boot_id: str, number: int) -> bool:
    """Pass a signal on; False when there is no shim to do it."""
    sight = _look(kernel, boot_id)
    if sight.standing is not Standing.ALIVE or sight.claim is None or not sight.has_pid:
        return False
    return ask_to_forward(sight.claim, number=number)


def _look(kernel: HeldKernel, boot_id: str) -> Sight:
    return look(kernel.folder, boot_id=boot_id, ordered_boot_id=kernel.ordered_boot_id)
