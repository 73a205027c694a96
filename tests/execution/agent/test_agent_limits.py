"""Limits of kernels: the reported limits are enforced."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from agent_harness import SHARES, TOYS, AgentHarness, agent_config, order, shell
from aliquot.execution.agent import cgroups
from aliquot.execution.agent.cgroups import Groups, find_groups
from aliquot.execution.agent.isolation.limits import PERIOD_US, LimitGroups, Limits, find_limit_groups, quota_above
from aliquot.execution.agent.isolation.settings import ConfinementRules, Mount
from aliquot_schema.cluster.launching import KernelPhase
from aliquot_schema.ids import DeviceId, SlotName
from aliquot_schema.resources.confinement import SessionLimits

pytestmark = pytest.mark.anyio

MOUNTS = Path("/proc/self/mountinfo")
FORKS = (
    "import os, time\n"
    "made = 0\n"
    "try:\n"
    "    while made < 200:\n"
    "        if os.fork() == 0: time.sleep(60)\n"
    "        made += 1\n"
    "except OSError: pass\n"
    "print('made', made, flush=True)\n"
    "os.kill(0, 15)\n"
)


async def test_a_fork_bomb_stops_at_its_limit(harness: AgentHarness) -> None:
    by = harness.inventory.agent.capabilities.enforced.processes
    if by == "rlimit":
        pytest.skip("no cgroup counts processes here, and a limit of the account would count those of others")
    bomb = order("/usr/bin/env", "python3", "-c", FORKS, limits=SessionLimits(processes=20))
    await harness.run(bomb)
    made = int(harness.output(bomb.kernel_id).split("made ")[1])
    assert 10 <= made < 20


async def test_open_files_and_core_files_are_limited(harness: AgentHarness) -> None:
    assert harness.inventory.agent.capabilities.enforced.open_files == "rlimit"
    asked = shell("ulimit -n; ulimit -Hn; ulimit -c", limits=SessionLimits(open_files=77))
    await harness.run(asked)
    assert harness.output(asked.kernel_id).split() == ["77", "77", "0"]


async def test_the_limits_of_the_operator_are_enforced(agent_home: Path) -> None:
    rules = ConfinementRules(open_files=99, open_files_max=200, processes_max=50, file_bytes_max=4096)
    harness = AgentHarness(agent_config(agent_home, confinement=rules))
    await harness.open()
    try:
        assert harness.inventory.agent.capabilities.enforced.file_size == "rlimit"
        asked = shell("ulimit -n; head -c 10000 /dev/zero >long; wc -c <long")
        await harness.run(asked)
        assert harness.output(asked.kernel_id).split()[0] == "99"
        assert harness.output(asked.kernel_id).split()[-1] == "4096"
        refused = await harness.run(shell("true", limits=SessionLimits(open_files=201)))
        assert refused.phase is KernelPhase.REFUSED
        assert refused.message == "limits: open_files is 201; the maximum here is 200"
    finally:
        await harness.close()


async def test_the_limit_cgroups_of_a_kernel_are_removed_after_its_end(harness: AgentHarness) -> None:
    asked = shell("cat /proc/self/cgroup")
    await harness.run(asked)
    groups = [line.split(":", 2)[2] for line in harness.output(asked.kernel_id).split("\n") if line]
    held = [group for group in groups if group.endswith(asked.kernel_id)]
    if harness.inventory.agent.capabilities.enforced.processes.startswith("cgroup"):
        assert held
    found = [path for root, names, _ in os.walk("/sys/fs/cgroup") for path in names if asked.kernel_id in path and root]
    assert not found


def test_the_cpu_quota_of_a_kernel_follows_its_granted_cpus() -> None:
    groups = LimitGroups(prefix="p", unified=Path("/u"), version_2=frozenset(), version_1={"cpu": Path("/c")})
    limits = Limits(rules=ConfinementRules(processes=0), groups=groups, limit_memory=True)
    cpu = SlotName("cpu")
    asked = order("true", spec={cpu: {DeviceId("cpu0"): 1, DeviceId("cpu1"): 1}, SHARES: {TOYS[0]: 200}})
    assert limits.of_tree(asked) == [(f"/c/p.{asked.kernel_id}", [("cpu.cfs_quota_us", str(2 * PERIOD_US))])]
    assert limits.of_tree(order("true")) == []
    newer = replace(groups, version_2=frozenset({"cpu", "pids"}))
    both = replace(limits, groups=newer, rules=ConfinementRules(processes=9)).of_tree(asked)
    name = f"/u/p.{asked.kernel_id}"
    assert both == [(name, [("pids.max", "9")]), (name, [("cpu.max", "200000 100000")])]


def test_a_cgroup_gets_no_larger_cpu_quota_than_its_parents(tmp_path: Path) -> None:
    """Cgroups of version 1 refuse more, and the kernel would not start, as in a container with `--cpus 1.5`."""
    inner = tmp_path / "inner" / "aliquot"
    inner.mkdir(parents=True)
    for place, quota_us, period_us in ((tmp_path, -1, 100_000), (inner.parent, 75_000, 50_000), (inner, -1, 100_000)):
        (place / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
        (place / "cpu.cfs_period_us").write_text(f"{period_us}\n")
    assert quota_above(inner) == 150_000
    assert quota_above(tmp_path) is None
    groups = LimitGroups(prefix="p", version_1={"cpu": inner}, quota_us_max=quota_above(inner))
    for cpus, text in ((1, "100000"), (4, "150000")):
        assert groups.wanted("k", processes=0, cpus=cpus) == [(str(inner / "p.k"), [("cpu.cfs_quota_us", text)])]


def test_a_cgroup_with_own_processes_is_not_made_to_delegate_controllers(tmp_path: Path) -> None:
    """As in a service's group: it would become a threaded domain, and no kernel could join it."""
    own = tmp_path / "agent.service"
    parent = own / "aliquot"
    parent.mkdir(parents=True)
    for group, processes in ((own, "4711\n"), (parent, "")):
        for name, text in (("type", "domain\n"), ("procs", processes), ("subtree_control", "")):
            (group / f"cgroup.{name}").write_text(text)
    found = find_limit_groups(Groups(parent, "p"), folder=tmp_path)
    assert found.version_2 == frozenset()
    assert (own / "cgroup.subtree_control").read_text() == ""


@pytest.fixture
def threaded_domain() -> Iterator[Path]:
    """A real group of version 2 below which no process can join."""
    mount = next((line.split()[4] for line in MOUNTS.read_text().splitlines() if " - cgroup2 " in line), None)
    group = Path(mount or "/nowhere") / f"aliquot-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no groups of version 2 can be made here")
    (group / "inner").mkdir()
    (group / "inner" / "cgroup.type").write_text("threaded")
    yield group
    for path in (group / "inner", *group.glob("aliquot"), group):
        path.rmdir()


def test_threaded_cgroups_are_not_used(threaded_domain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_own_group", lambda: threaded_domain)
    assert find_groups(tmp_path) is None


def test_limits_that_are_not_enforced_are_reported_as_such() -> None:
    limits = Limits(rules=ConfinementRules(limit_cpu=False), groups=LimitGroups(), limit_memory=False)
    told = limits.enforced()
    assert (told.memory, told.cpu, told.processes, told.file_size) == ("none", "none", "rlimit", "none")


@pytest.mark.parametrize("text", ["/data", "data:ro", "/data:rx", "/data/../etc:rw", ":rw", ""])
def test_a_sandbox_mount_needs_an_absolute_path_and_a_valid_access_mode(text: str) -> None:
    with pytest.raises(ValueError, match="write an absolute path"):
        Mount.parse(text)
    assert Mount.parse("/data:rw") == Mount(path=Path("/data"), writable=True)
