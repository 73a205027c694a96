"""Run as a program: an agent in its own process, which tests kill.

Arguments: the agent's folder, a shell text, and the kernels to start with it. Prints `started <kernel>` for each.
"""

import asyncio
import sys
from pathlib import Path

from agent_harness import AgentHarness, agent_config, shell
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.ids import KernelId


async def main(folder: Path, text: str, *names: str) -> None:
    harness = AgentHarness(agent_config(folder))
    await harness.open()
    kernels = [KernelId(name) for name in names]
    await harness.core.launch([shell(text, kernel=kernel) for kernel in kernels])
    for kernel in kernels:
        await harness.wait_for_report(kernel, KernelPhase.STARTED)
        print("started", kernel, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
