"""GPUs for work that runs outside: held while a block runs, and given back at its end."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from aliquot.client.failures import ClientFailure, LeaseLost, Refused
from aliquot.client.generated.mutations import Mutations
from aliquot.client.generated.outside import AllocateGpusInput, GpusAllocated
from aliquot_schema.errors import AliquotError

LEASE_S: Final = 120.0
"""A holder that died has its GPUs for no longer than this."""
RENEWALS_PER_LEASE: Final = 4


class Leases(Mutations):
    """Holds GPUs by hand."""

    @asynccontextmanager
    async def lease(
        self,
        *,
        shares: float,
        job_id: str | None = None,
        lease_s: float = LEASE_S,
        memory_gb: float | None = None,
        project: str | None = None,
        pool: str | None = None,
    ) -> AsyncIterator[GpusAllocated]:
        """Hold GPUs while the block runs; they are called for again as long as it does.

        Nothing keeps the block to them: put `gpu_ids` into CUDA_VISIBLE_DEVICES before anything uses a GPU.

        Args:
            shares: whole GPUs, or a share of one like 0.5.
            job_id: what you call it; each lease needs one of its own.
            lease_s: seconds until they are free if this program dies.
            memory_gb: the least memory per GPU, in 10^9 bytes.
        Raises:
            Refused: they are not free now. Nobody is waited for.
            LeaseLost: the server gave them up meanwhile; raised at the end of the block.
        """
        wanted = AllocateGpusInput(
            job_id=job_id or f"lease-{uuid.uuid4().hex}",
            gpu_count=shares,
            memory_gb=memory_gb,
            lease=lease_s,
            project=project,
            pool=pool,
        )
        held = await self.allocate_gpus(wanted)
        keeping = asyncio.create_task(_keep(lambda: self.allocate_gpus(wanted), held, lease_s))
        try:
            yield held
        finally:
            keeping.cancel()
            (lost,) = await asyncio.gather(keeping, return_exceptions=True)
            # What is not held any more is refused; what cannot be said to the server runs out there.
            with suppress(ClientFailure, AliquotError):
                await self.release_gpus(wanted.job_id)
        if isinstance(lost, Exception):
            raise lost


async def _keep(again: Callable[[], Awaitable[GpusAllocated]], held: GpusAllocated, lease_s: float) -> None:
    """Call for the GPUs again and again; a server that fails or is away for less than the lease does no harm."""
    until = time.monotonic() + lease_s
    while True:
        await asyncio.sleep(lease_s / RENEWALS_PER_LEASE)
        asked_at = time.monotonic()
        try:
            now = await again()
        except (ClientFailure, AliquotError) as error:
            if time.monotonic() > until or (isinstance(error, Refused) and error.kind == "NotPlaced"):
                raise LeaseLost(f"{held.job_id}: {error}") from error
            continue
        if now.session_id != held.session_id:
            raise LeaseLost(f"{held.job_id} ran out meanwhile, and was granted anew: {', '.join(now.gpu_ids)}")
        until = asked_at + lease_s
