"""`aliquot session stats`: what a session used of what it held, as `seff` shows it for Slurm."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.output import duration, print_json, printable
from aliquot.cli.connection.server import AsJson, AtServer, InCluster, TokenFile, connected, nodes
from aliquot.cli.session.names import find_session
from aliquot.cli.session.options import SessionId
from aliquot_schema.resources.units import size_text

if TYPE_CHECKING:
    from aliquot.client import BlockingClient
    from aliquot.client.generated.agents import Agent
    from aliquot.client.generated.history import GpuStats, HostStats, RightSize, SessionStats


_GB: Final = 1_000_000_000


def stats(
    session_id: SessionId,
    cluster: InCluster = None,
    server: AtServer = None,
    token_file: TokenFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what a session used of what it held: GPU use, memory, wait, GPU-hours, and one line of advice."""
    with connected(cluster=cluster, server=server, token_file=token_file) as client:
        found = client.session_stats(find_session(client, session_id))
        names = {} if as_json else device_names(client, {gpu.agent_id for gpu in found.gpus})
    print_json(found) if as_json else print("\n".join(stats_lines(found, names=names)))


def device_names(client: "BlockingClient", agents: Iterable[str]) -> dict[str, str]:
    """Names of the devices of agents, by id."""
    return {device.id: device.name for agent in agents_of(client, agents) for device in agent.devices}


def agents_of(client: "BlockingClient", ids: Iterable[str]) -> "list[Agent]":
    """The agents with these ids."""
    from aliquot.client.generated.inputs import AgentFilter

    wanted = sorted(ids)
    if not wanted:
        return []
    return list(nodes(lambda count, after: client.agents(filter=AgentFilter(ids=wanted), first=count, after=after)))


def stats_lines(found: "SessionStats", *, names: Mapping[str, str]) -> Iterator[str]:
    """The statistics line by line; the advice last.

    Args:
        names: of devices, by id.
    """
    yield f"{'session':<12} {found.session_id}, {found.state}"
    yield f"{'waited':<12} {duration(found.wait)}"
    if found.ran is not None:
        limit = "" if found.time_limit is None else f" of {duration(found.time_limit)}"
        yield f"{'ran':<12} {duration(found.ran)}{limit}"
    yield f"{'GPU-hours':<12} {found.gpu_hours:g}"
    if found.lost_gpu_hours:
        yield f"{'lost':<12} {found.lost_gpu_hours:g} GPU-hours of work, {found.credited_gpu_hours:g} not charged"
    if found.ettr is not None:
        of = f"{duration(found.productive)} productive of {duration(found.held)} with GPUs"
        yield f"{'ETTR':<12} {100 * found.ettr:.1f} %: {of}"
    if found.cost is not None:
        yield f"{'cost':<12} {printable(found.cost.text)}"
    for gpu in found.gpus:
        yield f"{'GPU':<12} {gpu_text(gpu, name=names.get(gpu.device_id, gpu.device_id))}"
    for host in found.hosts:
        rank = f"rank {host.rank} on {printable(host.agent_id)}: " if len(found.hosts) > 1 else ""
        yield f"{'CPU, memory':<12} {rank}{host_text(host)}"
    if found.warning is not None:
        yield f"{'missing':<12} {printable(found.warning)}"
    yield f"{'advice':<12} {printable(found.advice)}"
    if found.right_size is not None:
        yield from right_size_lines(found.right_size)


def memory_text(used: int, held: int | None) -> str:
    """Memory beside its share: `3.1/16 GiB`, or `1.6 MiB of 16 GiB` of less than a hundredth."""
    if held is None:
        return size_text(used)
    if used < held / 100:
        return f"{size_text(used)} of {size_text(held)}"
    number, unit = size_text(held).split(" ")
    return f"{round(used / held * float(number), 1):g}/{number} {unit}"


def host_text(host: "HostStats") -> str:
    """CPU and host memory of one rank: `CPU 1.2 of 4 (at most 3.8), memory 3.1/16 GiB (at most 5.2 GiB)`.

    Of an ended rank, the mean CPU and the most memory.
    """
    runs = host.cpu is not None or host.memory is not None
    cpus = host.cpu if host.cpu is not None else host.cpu_mean
    text = "CPU not measured"
    if cpus is not None:
        of = "" if host.cpu_held is None else f" of {host.cpu_held:g}"
        most = "" if host.cpu_max is None else f" (at most {host.cpu_max:.1f})"
        text = f"CPU {cpus:.1f}{of}{'' if host.cpu is not None else ' on average'}{most}"
    memory = host.memory if runs else host.memory_peak
    if memory is None:
        return f"{text}, memory not measured"
    if not runs:
        return f"{text}, memory at most {memory_text(memory, host.memory_held)}"
    most = "" if host.memory_peak is None else f" (at most {size_text(host.memory_peak)})"
    return f"{text}, memory {memory_text(memory, host.memory_held)}{most}"


def gpu_text(gpu: "GpuStats", *, name: str) -> str:
    """One GPU: `cuda1 on gpu01: 62 % busy (at most 98 %), memory at most 30.1/80 GiB`; shares are named."""
    share = "" if gpu.share == 1 else f", {gpu.share:g} of it, measured with its other holders"
    use = "not measured"
    if gpu.utilization is not None:
        use = f"{gpu.utilization:.0f} % busy (at most {gpu.utilization_max or 0.0:.0f} %)"
    memory = ""
    if gpu.memory_peak_gb is not None:
        held = None if gpu.memory_gb is None else round(gpu.memory_gb * _GB)
        memory = f", memory at most {memory_text(round(gpu.memory_peak_gb * _GB), held)}"
    return f"{printable(name)} on {printable(gpu.agent_id)}{share}: {use}{memory}"


def right_size_lines(found: "RightSize") -> Iterator[str]:
    """What the last runs of a command needed, a line for each part of the request."""
    for text in [figure.message for figure in found.figures] or [found.message]:
        yield f"{'right size':<12} {printable(text)}"
