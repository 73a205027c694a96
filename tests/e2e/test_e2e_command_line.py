"""The command line against a real server, each command in its own process."""

import os
import re
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.cli.connection.tables import present
from cli_users import CliUser, CommandResult

pytestmark = pytest.mark.anyio

FOREVER = "echo begun; exec sleep 3600"
SLURM = """#!/bin/bash
#SBATCH --job-name=named --ntasks=2
#SBATCH --output=lost.out
#ALIQUOT -e COLOUR=red -e SHAPE=round
echo "$0 $1 $COLOUR $SHAPE $SLURM_PROCID of $SLURM_NTASKS in $SLURM_JOB_NAME"
"""


@pytest.fixture
def person(two_gpus: OwnServer, tmp_path: Path) -> CliUser:
    return CliUser.at(two_gpus, home=tmp_path)


async def test_following_a_session_prints_its_output_and_its_end(person: CliUser) -> None:
    done = await to_thread.run_sync(_followed, person, "echo one; echo two")
    assert (done.code, done.out) == (0, "one\ntwo\n")
    failed = await to_thread.run_sync(lambda: person.run("session", "create", "-f", "--", "sh", "-c", "exit 3", code=1))
    assert "failed with exit code 3" in failed.err
    gang = await to_thread.run_sync(
        lambda: person.run("session", "create", "-f", "--cluster-size", "2", "--", "sh", "-c", "echo a $RANK; printf b")
    )
    assert sorted(gang.out.splitlines()) == ["0: a 0", "0: b", "1: a 1", "1: b"]


async def test_errors_are_printed_with_a_remedy(person: CliUser) -> None:
    def course() -> None:
        refused = person.run("session", "create", "-r", "cuda.device=3", "--", "true", code=3)
        assert "aliquot gpus" in refused.err
        assert "the largest agent has 2; ask for less, or for more kernels with --cluster-size" in refused.err
        assert "slots" not in refused.err
        huge = person.run("session", "create", "-r", "cuda.device=1", "--gpu-memory", "900", "--", "true", code=3)
        assert "--gpu-memory: 900 GB per GPU requested, and the largest GPU has 2.1 GB; ask for at most 2.1" in huge.err
        wide = person.run("session", "create", "-r", "cuda.device=1", "--cluster-size", "9", "--", "true", code=3)
        assert "--cluster-size: all agents together hold 2 such kernels" in wide.err
        assert "aliquot session list" in person.run("session", "show", "ses_none", code=3).err
        assert "after --" in person.run("session", "create", "no-script", code=2).err
        assert "write it like" in person.run("session", "create", "-r", "cpu", "--", "true", code=2).err
        assert "there is no command" in person.run("session", "create", code=2).err
        assert "aliquot serve" in person.run("queue", "--server", "http://127.0.0.1:1", code=4).err
        person.environment["ALIQUOT_TOKEN"] = "guessed"
        assert "--token-file" in person.run("queue", code=4).err

    await to_thread.run_sync(course)


async def test_gpus_left_idle_by_a_quota_are_reported(person: CliUser) -> None:
    def course() -> None:
        person.run("quota", "set", "cluster", "--max", "cuda.device=1")
        for _ in range(2):
            late = person.run("session", "create", "-r", "cuda.device=1", "--", "sleep", "3600").out.strip()
        said = "1 GPU is free; 1 of 1 waiting sessions is held back by quotas"
        assert said in person.run("queue").out
        why = person.run("session", "why", late).out
        assert said in why
        assert "The cluster may hold 1 GPU and holds 1; this session needs 1." in why
        assert "quota cluster:: 1 GPU, 1 held, 0 left" not in why
        assert "quota cluster: 1 GPU, 1 held, 0 left" in why

    await to_thread.run_sync(course)


async def test_a_waiting_session_is_explained_with_a_change_that_one_command_applies(person: CliUser) -> None:
    def course() -> None:
        held = person.run("session", "create", "-r", "cuda.device=1", "-t", "1h", "--", "sleep", "3600").out.strip()
        person.run("session", "show", held)
        wide = person.run("session", "create", "-r", "cuda.device=2", "-t", "1h", "--", "sleep", "3600").out.strip()
        late = person.run("session", "create", "-r", "cuda.device=1", "-t", "2h", "--", "sleep", "3600").out.strip()
        told = person.run("why", wide).out
        assert f"{held[-8:]} of " in told
        assert "1 GPU, running, expected to end by " in told
        assert "now, with 1 GPU instead of 2 GPUs" in told
        found = person.run("why", late, "--json").json
        assert (found["position"], [other["session_id"] for other in found["ahead"]]) == (2, [wide])
        shorter = next(remedy for remedy in found["remedies"] if remedy["kind"] == "time_limit")
        words = shorter["command"].split()
        assert words[:4] == ["aliquot", "session", "change", late]
        person.run(*words[1:])
        while person.run("session", "show", late, "--json").json["state"] in ("queued", "scheduled", "allocating"):
            pass
        assert "nothing to change" in person.run("session", "change", wide, code=2).err
        refused = person.run("session", "change", wide, "-r", "gpu=3", code=3).err
        assert "the largest agent has 2" in refused
        assert "only a waiting session can be changed" in person.run("session", "change", late, "-t", "5m", code=3).err

    await to_thread.run_sync(course)


async def test_the_effect_of_a_change_is_previewed_and_the_usage_is_shown_afterwards(person: CliUser) -> None:
    def course() -> None:
        hour = ("-t", "1h", "--", "sleep", "3600")
        held = person.run("session", "create", "-r", "gpu=2", "--name", "finetune", *hour).out.strip()
        first = person.run("session", "create", "-r", "gpu=2", "-t", "2h", "--", "sleep", "3600").out.strip()
        second = person.run("session", "create", "-r", "gpu=2", "-t", "5m", "--", "sleep", "3600").out.strip()
        agent = person.run("agents", "list", "--json").json[0]["id"]
        person.run("policy", "set", "order=fcfs")
        assert first[-8:] in person.run("what-if", "--like", agent).out
        told = person.run("policy", "set", "order=sjf", "--preview").out
        assert "1 session would start sooner:" in told
        assert f"{second[-8:]} of " in told
        assert person.run("policy", "show", "--json").json["order"] != "sjf"
        drained = person.run("agents", "drain", agent, "--evict", "--preview").out
        assert f"would be preempted: finetune ({held[-8:]}) of " in drained
        assert person.run("session", "show", held, "--json").json["state"] == "running"
        later = person.run("what-if", "-r", "gpu=2", "-t", "1h").out
        assert "it would wait" in later
        assert "held by finetune" in later
        assert "ses_" not in later
        assert "if all sessions run for their planned durations" in later
        assert "ask about something" in person.run("what-if", code=2).err
        stats = person.run("session", "stats", held).out
        assert "GPU-hours" in stats
        assert "too short to judge" in stats
        assert "It has not run yet." in person.run("session", "stats", second).out

    await to_thread.run_sync(course)


async def test_gpus_are_leased_while_a_local_command_runs(person: CliUser) -> None:
    def course() -> None:
        held = person.run("lease", "--gpus", "2", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exit 3", code=3)
        assert len(set(held.out.strip().split(","))) == 2
        assert f"aliquot: holding {held.out.strip().replace(',', ', ')} on " in held.err
        assert "warning" not in held.err
        assert person.run("session", "list", "--json").json == []
        limited = person.run("lease", "-t", "1", "--", "sh", "-c", "echo $$; exec sleep 600", code=124)
        assert not Path(f"/proc/{limited.out.strip()}").exists()
        assert "the time limit is over" in limited.err
        assert person.run("lease", "-t", "1s", code=124).out.startswith("export CUDA_VISIBLE_DEVICES=")
        assert "no-such-program" in person.run("lease", "--", "no-such-program", code=127).err
        assert person.run("lease", "--gpus", "3", "--", "true", code=3).out == ""

    await to_thread.run_sync(course)


async def test_command_line_options_override_those_of_a_script(person: CliUser) -> None:
    (person.home / "job.sh").write_text(SLURM)

    def course() -> None:
        done = person.run("session", "create", "-e", "COLOUR=blue", "-f", "job.sh", "x", "-r")
        lines = {f"{rank}: job.sh x blue round {rank} of 2 in named" for rank in (0, 1)}
        assert set(done.out.splitlines()) == lines
        assert "#SBATCH --output is ignored" in done.err
        shown = person.run("session", "list", "--all", "--json").json[0]
        assert (shown["name"], shown["cluster_size"]) == ("named", 2)
        assert "slurm-variables" not in person.run("session", "show", shown["id"]).out

    await to_thread.run_sync(course)


async def test_an_array_is_waited_for_and_its_failed_task_tried_again(person: CliUser, two_gpus: OwnServer) -> None:
    flag = two_gpus.folder / "mended"  # readable by jobs of another account
    command = ("sh", "-c", f"echo task $ALIQUOT_ARRAY_INDEX; [ $ALIQUOT_ARRAY_INDEX != 1 ] || [ -e {flag} ]")

    def course() -> None:
        words = ("session", "create", "--array", "0-2", "--wait", "--json", "--", *command)
        ended = person.run(*words, code=1).json
        assert (ended["state"], ended["tasks"]["failed"]["indices"]) == ("failed", "1")
        assert person.run("session", "logs", f"{ended['id']}_2").out == "task 2\n"
        flag.touch()
        again = person.run("session", "retry", ended["id"], "--json").json["id"]
        assert person.run("session", "wait", "--json", again).json["tasks"]["completed"]["indices"] == "0-2"

    await to_thread.run_sync(course)


async def test_a_waiting_session_is_explained_held_released_and_canceled(person: CliUser) -> None:
    def course() -> None:
        first = person.run(
            "session", "create", "-r", "cuda.device=2", "--name", "all", "--", "sleep", "3600"
        ).out.strip()
        late = person.run("session", "create", "-r", "cuda.shares=0.5", "--name", "late", "--", "true").out.strip()
        assert late in person.run("queue").out
        assert person.run("session", "why", late, "--json").json["waits"]["blocked_by"] == [first]
        explained = person.run("session", "why", late).out
        assert first[-8:] in explained
        assert "order: waited " in explained
        assert "held" in person.run("session", "hold", late).out
        assert [one["name"] for one in person.run("session", "list", "--state", "held", "--json").json] == ["late"]
        assert person.run("session", "release", late, "--json").json["state"] == "queued"
        person.run("session", "cancel", first)
        assert person.run("session", "wait", late).out == ""
        assert [one["state"] for one in person.run("session", "list", "--all", "--json").json] == [
            "completed",
            "canceled",
        ]
        assert person.run("queue").out == "the queue is empty\n"

    await to_thread.run_sync(course)


async def test_the_gpus_command_shows_held_gpus(person: CliUser) -> None:
    def course() -> None:
        done = person.interrupt(
            *("session", "create", "-f", "-r", "cuda.shares=0.3", "--", "sh", "-c", FOREVER), after="begun", answer=None
        )
        assert done.code == 130
        assert "logs -f" in done.err
        (agent,) = person.run("gpus", "--json").json
        assert sorted(gpu["used"] for gpu in agent["gpus"]) == ["0.00", "0.30"]
        drawn = person.run("gpus").out
        assert "0.3 of 2 GPUs held" in drawn
        assert drawn.count("\N{FULL BLOCK}") == 6
        person.run("session", "cancel", person.run("session", "list", "--json").json[0]["id"])
        assert person.run("usage", "--json").json[0]["gpu_hours"] > 0
        _check_usage_of_a_period(person)

    await to_thread.run_sync(course)


def _check_usage_of_a_period(person: CliUser) -> None:
    month = present().strftime("%Y-%m")
    head, first = person.run("usage", "--month", month, "--csv").out.splitlines()
    assert head == "user,gpu_hours,use_percent"
    name, hours, _ = first.split(",")
    assert float(hours) >= 0
    assert [row.split()[0] for row in person.run("usage", "--since", f"{month}-01").out.splitlines()[1:]] == [
        name,
        "all",
    ]
    assert person.run("usage", "--month", month, "--by", "project", "--json").json["step"] == 86_400
    assert person.run("usage", "--month", "2001-05").out == "nothing was used in this period\n"
    for words, why in (
        (("--month", "May"), "give a month like 2026-05"),
        (("--month", "9998-05"), "has not begun yet"),
        (("--until", f"{month}-01"), "--until: add --since, the first day of the period"),
        (("--since", "2001-01-01"), "--since: a period may have at most 2000 days; give a later day"),
        (("--month", month, "--since", f"{month}-01"), "give --month, or --since and --until"),
        (("--month", month, "--user", name), "use --by user"),
        (("--csv",), "add --month or --since"),
        (("--by", "project"), "add --month or --since"),
        (("--month", "9999-12"), "give a month like 2026-05"),
        (("--since", ""), "give a month like 2026-05"),
        (("--month", month, "--by", "node"), "it is one of user, project"),
    ):
        assert why in person.run("usage", *words, code=2).err


@pytest.mark.parametrize(("answer", "state"), [("c", "canceled"), ("", "running")])
async def test_an_interrupted_follower_is_asked_what_to_do(person: CliUser, answer: str, state: str) -> None:
    def course() -> None:
        words = ("session", "create", "-f", "--", "sh", "-c", FOREVER)
        done = person.interrupt(*words, after="begun", answer=answer)
        assert done.code == 130
        assert "keep following" in done.err
        (found,) = person.run("session", "list", "--all", "--json").json
        assert found["state"] == state

    await to_thread.run_sync(course)


async def test_a_follower_that_continues_after_an_interrupt_misses_no_output(
    person: CliUser, two_gpus: OwnServer
) -> None:
    gate = two_gpus.folder / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)

    def course() -> None:
        words = ("session", "create", "-f", "--", "sh", "-c", f"echo begun; cat {gate}; echo over")
        done = person.interrupt(*words, after="begun", answer="f")
        assert (done.code, done.out) == (0, "begun\nmiddle\nover\n")

    async with anyio.create_task_group() as group:
        group.start_soon(to_thread.run_sync, course)
        await to_thread.run_sync(gate.write_text, "middle\n")


async def test_operators_change_agents_quotas_and_the_policy(person: CliUser) -> None:
    def course() -> None:
        (agent,) = person.run("agents", "list", "--json").json
        id = agent["id"]
        assert "draining (new fans)" in person.run("agents", "drain", id, "--note", "new fans").out.replace(
            "drained", "draining"
        )
        assert person.run("agents", "resume", id, "--json").json["draining"] is False
        labels = person.run("agents", "label", id, "room=b12", "--json").json["labels"]
        assert labels == [{"name": "room", "value": "b12"}]
        person.run("quota", "set", "user:anna", "--max", "cuda.device=1", "--max-queued", "5")
        person.run("quota", "set", "user:anna", "--max-queued", "none")
        (quota,) = person.run("quota", "list", "--json").json
        assert (quota["max_slots"], quota["max_queued"]) == ([{"slot": "cuda.device", "amount": "1"}], None)
        person.run("quota", "remove", "user:anna")
        person.run("quota", "remove", "user:anna", code=3)
        document = person.run("policy", "show", "--json")
        (person.home / "policy.json").write_text(document.out)
        assert "order: fair_share -> priority\n" in person.run("policy", "set", "order=priority", "weights.age=2").out
        old = person.run("policy", "set", "preemption.victims=nobody")
        assert old.err.startswith(
            "warning: preemption.victims=nobody is deprecated; use preemption.preempt=none. "
            "Release 0.3 may remove preemption.victims=nobody.\n"
        )
        assert old.out == "preemption.preempt: preemptible -> none\n"
        assert "victims" not in old.out
        stale = person.run("policy", "set", "--file", "policy.json", code=3)
        assert "someone else" in stale.err

    await to_thread.run_sync(course)


async def test_operators_stop_and_start_scheduling(person: CliUser) -> None:
    def course() -> None:
        assert person.run("scheduling", "show").out == "scheduling is running\n"
        stopped = person.run("scheduling", "stop", "--note", "new racks").out
        assert re.fullmatch(r"scheduling was stopped by root on \S+ \S+ UTC: new racks\n", stopped)
        id = person.run("session", "create", "-r", "gpu=1", "--", "true").out.strip()
        queue = person.run("queue").out
        assert "stopped: Scheduling is stopped" in queue
        assert queue.endswith(stopped)
        assert person.run("scheduling", "start", "--json").json["state"] == "running"
        person.run("session", "wait", id)
        assert "scheduling was stopped" not in person.run("queue").out

    await to_thread.run_sync(course)


async def test_new_names_are_reported_as_possibly_misspelt(person: CliUser) -> None:
    def course() -> None:
        person.run("project", "create", "vision")
        assert person.run("quota", "set", "project:vision", "--max-queued", "5").err == ""
        assert person.run("quota", "set", "project:visoin", "--max-queued", "5").err == (
            "aliquot: project visoin is new; there is vision\n"
        )
        added = person.run("user", "add", "anna", "--project", "vision", "--project", "nlp")
        assert added.err.endswith("aliquot: project nlp is new\n")
        assert "project" not in person.run("user", "set", "anna", "--project", "nlp").err
        assert person.run("quota", "set", "user:ana", "--max", "gpu=1").err == (
            "aliquot: there is no user ana yet; there is anna\n"
        )
        assert "name: give 1 to 64 letters" in person.run("project", "create", "two words", code=3).err
        key = person.run("key", "new", "anna")
        assert key.err == "aliquot: the key allows what the scope submit allows; --scope names another\n"

    await to_thread.run_sync(course)


async def test_the_users_of_a_file_are_created_with_keys(person: CliUser, two_gpus: OwnServer) -> None:
    def course() -> None:
        people = person.home / "people.csv"
        person.run("user", "add", "otto")
        people.write_text("Name,Role,Projects\nanna,,vision nlp\nvera,viewer,\notto,admin,\n", encoding="utf-8")
        planned = person.run("user", "import", "people.csv", "--dry-run")
        assert planned.out.endswith("2 of 3 users would be new\n")
        done = person.run("user", "import", "people.csv", "--keys", "keys")
        assert done.out.endswith("2 of 3 users are new\n")
        users = {user["name"]: user for user in person.run("user", "list", "--json").json}
        assert (users["anna"]["role"], users["anna"]["projects"]) == ("user", ["nlp", "vision"])
        assert (users["vera"]["role"], users["otto"]["role"]) == ("viewer", "user")
        key = person.home / "keys" / "anna.key"
        assert key.stat().st_mode & 0o777 == 0o600
        assert person.run("session", "list", "--token-file", str(key)).out
        assert not (person.home / "keys" / "otto.key").exists()
        people.write_text("name,unix\nb/b,\ncarl,\n", encoding="utf-8")
        half = person.run("user", "import", "people.csv", code=1)
        assert "refused: name: give 1 to 64 letters" in half.out
        assert half.out.endswith("1 of 2 users are new\n")
        people.write_text("name\nzoe\n", encoding="utf-8")
        (person.home / "keys" / "zoe.key").mkdir()
        without = person.run("user", "import", "people.csv", "--keys", "keys", "--json", code=1).json[0]
        assert (without["state"], without["message"].rpartition("; ")[2]) == ("no_key", "run `aliquot key new zoe`")
        assert person.run("key", "new", "zoe").out
        people.write_text("person\ncarl\n", encoding="utf-8")
        assert "use name, role, unix, projects" in person.run("user", "import", "people.csv", code=2).err

    await to_thread.run_sync(course)


async def test_a_cluster_is_found_by_its_name(person: CliUser, two_gpus: OwnServer) -> None:
    def course() -> None:
        for name in ("ALIQUOT_SERVER", "ALIQUOT_TOKEN"):
            del person.environment[name]
        (person.home / "key").write_text(two_gpus.token)
        person.run("clusters", "add", "lab", two_gpus.url, "--key-file", "key")
        assert person.run("queue").out == "the queue is empty\n"
        assert person.run("doctor").out.startswith("1 agent examined")
        assert person.run("queue", "--cluster", "attic", code=2).err.startswith("aliquot: ")

    await to_thread.run_sync(course)


def _followed(person: CliUser, text: str) -> CommandResult:
    return person.run("session", "create", "-r", "cpu=1", "-r", "cuda.shares=0.2", "-f", "--", "sh", "-c", text)
