"""Job environment: the variables that a job gets, made by the agent's code for rank 0 of a gang of two.

Variables that only gangs or array tasks have are described as such. A test compares the table with a real job.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aliquot.execution.agent.agent_folder import AgentFolder, KernelFolder
from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.preparation import job_environment
from aliquot.execution.devices.device_set import DeviceSet
from aliquot.execution.devices.host import HostPlugin
from aliquot.execution.devices.mock import MockPlugin
from aliquot_docs.markdown import code, table, text
from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.identity.secrets import SecretGrant, SecretUse
from aliquot_schema.ids import AgentId, DeviceId, KernelId, SlotName, UserId
from aliquot_schema.resources.devices import ResourceSpec

GPU: Final = "GPU-8a3c"
GANG_VARIABLES: Final = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "LOCAL_WORLD_SIZE": "1",
    "NODE_RANK": "0",
    "ALIQUOT_NODES": "2",
    "MASTER_ADDR": "gpu01",
    "MASTER_PORT": "29500",
}
ARRAY_VARIABLES: Final = {"ALIQUOT_ARRAY_ID": "ses_0190", "ALIQUOT_ARRAY_INDEX": "7"}
MEANINGS: Final = {
    "PATH": "Search path of programs; not the server's.",
    "LANG": "The locale.",
    "HOME": "The account's home, or the kernel's work folder if it has none.",
    "USER": "The Unix account that the job runs as.",
    "LOGNAME": "The same account.",
    "SHELL": "The account's shell.",
    "CUDA_DEVICE_ORDER": "GPUs are numbered in the order of their PCI bus ids.",
    "CUDA_VISIBLE_DEVICES": "UUIDs of the allocated GPUs, in the order of their names; empty without a GPU.",
    "NVIDIA_VISIBLE_DEVICES": "The same for the container toolkit; `void` without a GPU.",
    "ALIQUOT_DEVICE_IDS": "Ids of the allocated accelerators of any kind, in the order of their names.",
    "ALIQUOT_DEVICE_NAMES": "Their names on the node, in the same order.",
    "ALIQUOT_GPU_SHARES": "A JSON object: the allocated part of each GPU; 1 is a whole GPU.",
    "ALIQUOT_GPU_MEMORY_BYTES": "A JSON object: the same part of each GPU's memory, in bytes.",
    "ALIQUOT_CPUS": "The numbers of the allocated CPUs.",
    "ALIQUOT_MEMORY_BYTES": "The allocated memory, in bytes.",
    "CHECKPOINT_DIR": "A folder shared by all attempts of the session on this agent; write checkpoints here.",
    "RESULT_DIR": "A folder for results; kept after the end, see [retention](../operating/retention.md).",
    "ALIQUOT_ATTEMPT": "The kernel's id; agents find orphaned processes by it.",
    "ALIQUOT_KERNEL_ID": "The kernel's id: session, attempt and rank.",
    "ALIQUOT_SESSION_ID": "The session's id.",
    "ALIQUOT_RANK": "The rank in the gang; 0 for a session of one kernel.",
    "ALIQUOT_AGENT_ID": "The agent that runs the kernel.",
    "ALIQUOT_SLOTS": "A JSON object: all allocated amounts, by slot.",
    "ALIQUOT_RESOURCE_FILE": "The file with the resource spec: the amount of each device.",
    "ALIQUOT_SECRETS_DIR": "Only with secrets as files: their folder.",
    "ALIQUOT_ARRAY_ID": "Only for array tasks: the array's id.",
    "ALIQUOT_ARRAY_INDEX": "Only for array tasks: the index.",
    "RANK": "The rank in the gang.",
    "WORLD_SIZE": "Number of kernels in the gang.",
    "LOCAL_RANK": "The rank among the gang's kernels on the same agent.",
    "LOCAL_WORLD_SIZE": "Number of the gang's kernels on the same agent.",
    "NODE_RANK": "The number of the agent in the gang.",
    "ALIQUOT_NODES": "Number of agents that the gang runs on.",
    "MASTER_ADDR": "The address of rank 0.",
    "MASTER_PORT": "A port there, reserved for this gang while any rank runs.",
}


def job_environment_table() -> str:
    """A row per variable that Aliquot sets."""
    made = example_environment()
    assert made.keys() <= MEANINGS.keys(), f"no meaning for {made.keys() - MEANINGS.keys()}"
    return table(
        ("variable", "example", "meaning"), ((code(name), code(made[name]), text_of(name)) for name in sorted(made))
    )


def text_of(name: str) -> str:
    """The meaning of a variable as Markdown; links are kept."""
    meaning = MEANINGS[name]
    return meaning if "](" in meaning else text(meaning)


def example_environment() -> Mapping[str, str]:
    """The variables of rank 0 of a gang of two with half a GPU, two CPUs, 4 GiB and a secret."""
    spec: ResourceSpec = {
        SlotName("cuda.shares"): {DeviceId(GPU): 500},
        SlotName("cpu"): {DeviceId("cpu0"): 1, DeviceId("cpu1"): 1},
        SlotName("mem"): {DeviceId("mem0"): 4 * 2**30},
    }
    order = LaunchOrder(
        kernel_id=KernelId("ses_0190.1.0"),
        epoch=1,
        argv=("true",),
        environment=GANG_VARIABLES | ARRAY_VARIABLES,
        working_directory=None,
        spec=spec,
        secrets=(SecretGrant(owner=UserId("anna"), use=SecretUse(name="hub", as_file="hub"), value="..."),),
    )
    user = JobUser(name="anna", uid=1000, gid=1000, groups=(), home="/home/anna", shell="/bin/bash", switches=False)
    agent = AgentFolder(Path("/var/lib/aliquot/agents/gpu01"))
    kernel = KernelFolder(agent.kernels / order.kernel_id)
    folder = agent.sessions / "ses_0190"
    made = job_environment(
        order,
        user=user,
        devices=_devices().environment(spec),
        agent_id=AgentId("gpu01"),
        work=kernel.work,
        session=folder,
        resource_file=kernel.resource,
        secrets=folder / "secrets",
    )
    # The account may have no home on the machine that builds this.
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
