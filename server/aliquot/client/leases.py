"""External allocations: GPUs for work that Aliquot does not start, held while a block runs."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from aliquot.client.errors import ClientFailure, LeaseLost, Refused
from aliquot.client.generated.external_allocations import AllocateGpusInput, GpusAllocated
from aliquot.client.generated.mutations import Mutations
from aliquot_schema.errors import AliquotError

LEASE_S: Final = 120.0
"""Time after which the GPUs of a holder that died are free."""
RENEWALS_PER_LEASE: Final = 4


class Leases(Mutations):
    """Holds GPUs for work that Aliquot does not start."""

    @asynccontextmanager
    async def lease(
        self,
        *,
        shares: float,
        job_id: str | None = None,
        lease_s: float = LEASE_S,
        time_limit_s: float | None = None,
        memory_gb: float | None = None,
        project: str | None = None,
        pool: str | None = None,
    ) -> AsyncIterator[GpusAllocated]:
        """Hold GPUs while the block runs; the allocation is renewed in the background.

        The block is not confined to them: put `gpu_ids` into CUDA_VISIBLE_DEVICES before anything uses a GPU.

        Args:
            shares: whole GPUs, or a share of one like 0.5.
            job_id: an id of your choice, different for each allocation.
            lease_s: seconds after which they are free if this program dies.
            time_limit_s: seconds after which they are free in any case. With it, GPUs that are reserved for a session
                that starts later may be used until then.
            memory_gb: the minimum memory per GPU, in 10^9 bytes.
        Raises:
            Refused: they are not free now, or only for an allocation that ends in time; the message says who waits.
            LeaseLost: the server released them meanwhile, or the time limit is over; raised at the end of the block.
        """
        wanted = AllocateGpusInput(
            job_id=job_id or f"lease-{uuid.uuid4().hex}",
            gpu_count=shares,
            memory_gb=memory_gb,
            lease=lease_s,
            time_limit=time_limit_s,
            project=project,
            pool=pool,
        )
        ends = None if time_limit_s is None else time.monotonic() + time_limit_s
        held = await self.allocate_gpus(wanted)
        keeping = asyncio.create_task(_keep(lambda: self.allocate_gpus(wanted), held, lease_s, ends=ends))
        try:
            yield held
        finally:
            keeping.cancel()
            (lost,) = await asyncio.gather(keeping, return_exceptions=True)
            # A lost allocation is refused here; if the server is unreachable, the allocation expires.
            with suppress(ClientFailure, AliquotError):
                await self.release_gpus(wanted.job_id)
        if isinstance(lost, Exception):
            raise lost


async def _keep(
    renew: Callable[[], Awaitable[GpusAllocated]], held: GpusAllocated, lease_s: float, *, ends: float | None
) -> None:
    """Renew the allocation until canceled; failures of the server shorter than the lease are retried.

    Args:
        ends: when its time limit is over, in monotonic seconds; None = it has none.
    """
    until = time.monotonic() + lease_s
    while True:
        pause = lease_s / RENEWALS_PER_LEASE
        await asyncio.sleep(pause if ends is None else max(0.0, min(pause, ends - time.monotonic())))
        if ends is not None and time.monotonic() >= ends:
            raise LeaseLost(f"{held.job_id}: its time limit is over, and others may use its GPUs")
        asked_at = time.monotonic()
        try:
            now = await renew()
        except (ClientFailure, AliquotError) as error:
            if time.monotonic() > until or (isinstance(error, Refused) and error.kind == "NotPlaced"):
                why = error.answer.get("message", error) if isinstance(error, Refused) else error
                raise LeaseLost(f"{held.job_id}: {why}") from error
            continue
        if now.session_id != held.session_id:
            raise LeaseLost(f"{held.job_id} expired, and was allocated again: {', '.join(now.gpu_ids)}")
        until = asked_at + lease_s
