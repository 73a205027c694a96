"""The variables of a job, as the code that makes them makes them for rank 0 of a gang of two.

Said of a task of an array and of a gang are what only they have; a test asks a real job for its variables and compares.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aliquot.execution.agent.environment import job_environment
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.mock import MockPlugin
from aliquot_docs.markdown import code, table, text
from aliquot_schema.devices import ResourceSpec
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SlotName, UserId
from aliquot_schema.launching import LaunchOrder
from aliquot_schema.secrets import SecretGrant, SecretUse

GPU: Final = "GPU-8a3c"
OF_A_GANG: Final = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "NODE_RANK": "0",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
}
OF_AN_ARRAY: Final = {"ALIQUOT_ARRAY_ID": "ses_0190", "ALIQUOT_ARRAY_INDEX": "7"}
MEANINGS: Final = {
    "PATH": "Where programs are looked for; not the server's.",
    "LANG": "The locale.",
    "HOME": "The account's home, or the kernel's work folder where it has none.",
    "USER": "The Unix account that the job runs as.",
    "LOGNAME": "The same.",
    "SHELL": "The account's shell.",
    "CUDA_DEVICE_ORDER": "GPUs are numbered by their place on the bus.",
    "CUDA_VISIBLE_DEVICES": "The GPUs given, by UUID, in the order of their names; empty when none was given.",
    "NVIDIA_VISIBLE_DEVICES": "The same for the container toolkit; `void` when none was given.",
    "ALIQUOT_GPU_SHARES": "A JSON object: by GPU, how much of it was given. 1 is a whole one.",
    "ALIQUOT_GPU_MEMORY_BYTES": "A JSON object: by GPU, the same part of its memory, in bytes.",
    "ALIQUOT_CPUS": "The numbers of the CPUs given.",
    "ALIQUOT_MEMORY_BYTES": "The memory given, in bytes.",
    "CHECKPOINT_DIR": "A folder that all attempts of the session on this agent share; write checkpoints here.",
    "RESULT_DIR": "A folder for results; kept after the end, see [retention](../operating/retention.md).",
    "ALIQUOT_ATTEMPT": "The kernel's id; how its processes are found when everything else is gone.",
    "ALIQUOT_KERNEL_ID": "The kernel's id: session, attempt and rank.",
    "ALIQUOT_SESSION_ID": "The session's id.",
    "ALIQUOT_RANK": "The rank in the gang; 0 for a session of one kernel.",
    "ALIQUOT_AGENT_ID": "The agent that runs it.",
    "ALIQUOT_SLOTS": "A JSON object: all that was given, by slot.",
    "ALIQUOT_RESOURCE_FILE": "The file with the resource spec: which amount of which device.",
    "ALIQUOT_SECRETS_DIR": "Of a session with secrets as files: the folder that they are in.",
    "ALIQUOT_ARRAY_ID": "Of a task of a job array: the array's id.",
    "ALIQUOT_ARRAY_INDEX": "Of a task of a job array: its index.",
    "RANK": "The rank in the gang.",
    "WORLD_SIZE": "How many kernels the gang has.",
    "LOCAL_RANK": "The rank among those on the same agent.",
    "LOCAL_WORLD_SIZE": "How many kernels of the gang the same agent runs.",
    "NODE_RANK": "The number of the agent in the gang.",
    "MASTER_ADDR": "Where rank 0 is reached.",
    "MASTER_PORT": "A port there that no other gang has while a rank lives.",
}


def job_environment_table() -> str:
    """A row for each variable that Aliquot sets."""
    made = example_environment()
    assert made.keys() <= MEANINGS.keys(), f"nothing is said of {made.keys() - MEANINGS.keys()}"
    return table(
        ("variable", "an example", "meaning"), ((code(name), code(made[name]), text_of(name)) for name in sorted(made))
    )


def text_of(name: str) -> str:
    """What a variable means; a link in it stays one."""
    meaning = MEANINGS[name]
    return meaning if "](" in meaning else text(meaning)


def example_environment() -> Mapping[str, str]:
    """What rank 0 of a gang of two, that asked for half a GPU, two CPUs, 4 GiB and a secret, is given."""
    spec: ResourceSpec = {
        SlotName("cuda.shares"): {DeviceId(GPU): 500},
        SlotName("cpu"): {DeviceId("cpu0"): 1, DeviceId("cpu1"): 1},
        SlotName("mem"): {DeviceId("mem0"): 4 * 2**30},
    }
    order = LaunchOrder(
        kernel_id=KernelId("ses_0190.1.0"),
        epoch=1,
        argv=("true",),
        environment=OF_A_GANG | OF_AN_ARRAY,
        working_directory=None,
        spec=spec,
        secrets=(SecretGrant(owner=UserId("anna"), use=SecretUse(name="hub", as_file="hub"), value="..."),),
    )
    user = JobUser(name="anna", uid=1000, gid=1000, groups=(), home="/home/anna", shell="/bin/bash", switches=False)
    folder = Path("/var/lib/aliquot/agents/gpu01/sessions/ses_0190")
    made = job_environment(
        order,
        user=user,
        devices=_devices().environment(spec),
        agent_id=AgentId("gpu01"),
        work=folder / "work",
        session=folder,
        resource_file=folder / "resource.json",
        secrets=folder / "secrets",
    )
    # Whether the account has its home depends on the machine that builds this.
    return {**made, "HOME": user.home}


def _devices() -> DeviceSet:
    gpu = {"mother_uuid": GPU, "model_name": "H100", "memory_size": "80G", "subproc_count": 132, "numa_node": 0}
    mock = MockPlugin(
        {
            "slot_name": "cuda",
            "device_plugin_name": "CUDADevice",
            "devices": [{**gpu, "is_mig_device": False}],
        }
    )
    found = DeviceSet([mock, HostPlugin({"cpu": 2, "mem": "8g"})])
    found.discover()
    return found
