"""Slurm's configuration: the minimum that runs here, and the same with its scheduler tuned for short waits."""

import os
import pwd
from pathlib import Path
from typing import Final

GPUS: Final = 64
PENDING_MAX: Final = 50_000
TASKS_MAX: Final = 2001
"""Tasks of an array, and one: the largest index is below it."""

DEFAULT: Final = ""
TUNED: Final = (
    "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1,"
    "default_queue_depth=1000\n"
    "SlurmctldDebug=error\nSlurmdDebug=error\n"
)


def write(folder: Path, *, host: str, ports: tuple[int, int], tuning: str) -> Path:
    """Write `slurm.conf` and `gres.conf`, and the devices that the latter names.

    Args:
        ports: of slurmctld and slurmd, on loopback.
    Returns:
        The path of `slurm.conf`.
    """
    for index in range(GPUS):
        device = folder / f"gpu{index}"
        if not device.is_symlink():
            device.symlink_to("/dev/null")
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n", encoding="utf-8")
    path = folder / "slurm.conf"
    path.write_text(_text(folder, host=host, ports=ports) + tuning, encoding="utf-8")
    return path


def _text(folder: Path, *, host: str, ports: tuple[int, int]) -> str:
    """One node with 64 GPUs.

    Processes are tracked by /proc, because cgroups are not available everywhere; only cores and GPUs are allocated, so
    that a job without a memory request does not take the whole node; the limits of jobs and tasks fit the measurements.
    """
    user = pwd.getpwuid(os.getuid()).pw_name
    return f"""ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/run/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdParameters=config_overrides
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
MaxJobCount={PENDING_MAX}
MaxArraySize={TASKS_MAX}
NodeName={host} NodeAddr=127.0.0.1 CPUs={GPUS} Gres=gpu:{GPUS} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
