"""Job scripts with directives."""

import importlib
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from aliquot.cli.session.script import Script, ScriptError
from aliquot.cli.session.slurm import SlurmError, memory_bytes, seconds, slurm_words, without_slurm_variables
from aliquot.client.generated.inputs import CreateSessionInput


def _script(folder: Path, text: str, *, name: str = "job.sh") -> Script:
    path = folder / name
    path.write_text(text)
    return Script.read(path)


def test_directives_end_with_the_first_command(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#ALIQUOT -r cpu=2\n\n# a remark\n#ALIQUOT --name 'two words' # why\ntrue\n#ALIQUOT -r cpu=9\n"
    assert _script(tmp_path, text).words == ("-r", "cpu=2", "--name", "two words")


def test_tabs_separate_a_directive_as_spaces_do(tmp_path: Path) -> None:
    text = "#!/bin/bash\n#SBATCH\t--gpus=1\n#ALIQUOT \t --name\ttab\n#SBATCH\ntrue\n"
    assert _script(tmp_path, text).words == ("-r", "cpu=1", "-r", "gpu=1", "--name", "tab")


@pytest.mark.parametrize("given", [{"gpus": "2"}, {"resources": ["gpu=2"]}, {"resources": ["cuda.shares=0.5"]}])
@pytest.mark.parametrize(
    "line", ["#SBATCH --gpus=1", "#ALIQUOT --gpus 1", "#ALIQUOT --gpus=1 -rcuda=2", "#ALIQUOT -r gpu=1"]
)
def test_gpus_of_the_command_line_replace_those_of_a_script(
    tmp_path: Path, line: str, given: dict[str, object]
) -> None:
    script = _script(tmp_path, f"{line}\n#ALIQUOT --resources=mem=1g --name train\n")
    beside = script.words_beside(given)
    assert not {word for word in beside if "gpu" in word or "cuda" in word}
    assert beside[-4:] == ("-r", "mem=1g", "--name", "train")
    assert script.words_beside({"resources": ["cpu=2"]}) == script.words


def test_a_word_in_a_directive_that_is_no_option_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/sh\n#ALIQUOT --name my job\ntrue\n")
    found = CliRunner().invoke(main, ["session", "create", str(path)])
    assert (found.exit_code, "job.sh: 'job' in a directive is not an option" in found.stderr) == (2, True)
    path.write_text("#!/bin/sh\n#ALIQUOT --gpsu 2\ntrue\n")
    found = CliRunner().invoke(main, ["session", "create", str(path)])
    assert (found.exit_code, "job.sh: No such option: --gpsu" in found.stderr) == (2, True)


def test_a_script_session_is_named_after_its_file(tmp_path: Path) -> None:
    assert _script(tmp_path, "true\n").words == ("--name", "job.sh")


@pytest.mark.parametrize("mark", ["##SBATCH", "# SBATCH", "#SBATCHES", "#sbatch"])
def test_similar_comments_are_not_directives(tmp_path: Path, mark: str) -> None:
    assert "--cluster-size" not in _script(tmp_path, f"#!/bin/sh\n{mark} --ntasks=2\n").words


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("#!/bin/bash -e", ("/bin/bash", "-e", "-c", "TEXT", "job.sh", "a")),
        ("#!/usr/bin/env bash", ("bash", "-c", "TEXT", "job.sh", "a")),
        ("#!/usr/bin/env -S python3 -u", ("python3", "-u", "-c", "TEXT", "a")),
        ("#!/usr/bin/python3.11", ("/usr/bin/python3.11", "-c", "TEXT", "a")),
        ("#!/usr/bin/perl", ("/usr/bin/perl", "-e", "TEXT", "--", "a")),
        ("#!/usr/bin/perl5.36", ("/usr/bin/perl5.36", "-e", "TEXT", "--", "a")),
        ("true", ("/bin/sh", "-c", "TEXT", "job.sh", "a")),
    ],
)
def test_a_script_is_sent_as_text_with_its_interpreter(tmp_path: Path, first: str, expected: tuple[str, ...]) -> None:
    script = _script(tmp_path, f"{first}\n")
    assert script.command(("a",)) == tuple(script.text if word == "TEXT" else word for word in expected)


@pytest.mark.parametrize("first", ["#!/usr/bin/node", "#!", "#!/usr/bin/env"])
def test_an_unknown_interpreter_is_refused(tmp_path: Path, first: str) -> None:
    with pytest.raises(ScriptError, match="after --"):
        _script(tmp_path, f"{first}\n")


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", None])
def test_unreadable_scripts_are_refused_with_their_name(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "program"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ScriptError, match=r"program: .* after --"):
        Script.read(path)


def test_an_unclosed_quote_in_a_directive_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match="--name 'two"):
        _script(tmp_path, "#ALIQUOT --name 'two words\n")


def test_a_script_of_slurm_is_run_with_its_variables(tmp_path: Path) -> None:
    plain = _script(tmp_path, "echo\n")
    for text in ("#SBATCH -n 2\n", "echo $SLURM_PROCID\n"):
        script = _script(tmp_path, text)
        assert script.is_for_slurm
        assert without_slurm_variables(script.command(())) == ("/bin/sh", "-c", text, "job.sh")
        assert len(script.command(())) > len(plain.command(()))
    assert not plain.is_for_slurm


def test_slurm_programs_in_a_script_are_reported_as_unavailable(tmp_path: Path) -> None:
    script = _script(tmp_path, "# srun is told about\nsrun -n 2 train\nhost=$( scontrol show hostnames )\n")
    assert [note.split()[0] for note in script.notes] == ["`srun`", "`scontrol`"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", ""),
        ("-n4 -c 2", "--cluster-size 4 -r cpu=2"),
        ("-N 2 --ntasks-per-node=4", "--cluster-size 8 -r cpu=1"),
        ("--nodes=2-4", "--cluster-size 2 -r cpu=1"),
        ("--mem=8G -n 4 -N 2", f"--cluster-size 4 -r cpu=1 -r mem={4 * 2**30}"),
        ("--mem-per-cpu=1000 -c 4", f"-r cpu=4 -r mem={4000 * 2**20}"),
        ("--mem-per-gpu=1G --gpus=2", f"-r cpu=1 -r mem={2 * 2**30} -r gpu=2"),
        ("--mem=0", "-r cpu=1"),
        ("--gres=gpu:2", "-r cpu=1 -r gpu=2"),
        ("--gres=gpu:a100:1", "-r cpu=1 -r gpu=1 --model *a100*"),
        ("--gres=gpu", "-r cpu=1 -r gpu=1"),
        ("--gres=gpu:h100", "-r cpu=1 -r gpu=1 --model *h100*"),
        ("--gres=gpu:a100:4(S:0,1)", "-r cpu=1 -r gpu=4 --model *a100*"),
        ("-G 8 -n 8", "--cluster-size 8 -r cpu=1 -r gpu=1"),
        ("--gpus-per-node=h100:8 --ntasks-per-node=8", "--cluster-size 8 -r cpu=1 -r gpu=1 --model *h100*"),
        ("--gpus-per-task=2 --cpus-per-gpu=4", "-r cpu=8 -r gpu=2"),
        ("-J name -A lab -p gpu -D /data", "-r cpu=1 --name name --project lab --pool gpu --chdir /data"),
        ("--time=1-2:30:00", "-r cpu=1 --time-limit 95400s"),
        ("--time=UNLIMITED", "-r cpu=1"),
        ("--time=0", "-r cpu=1"),
        ("--time=0-00:00:00", "-r cpu=1"),
        ("-t infinite", "-r cpu=1"),
        ("-a 0-15%4", "-r cpu=1 --array 0-15 --max-parallel 4"),
        ("--array=1,3-4,0-10:5", "-r cpu=1 --array 1,3-4,0,5,10"),
        ("-H --requeue", "-r cpu=1 --hold --retries 1"),
        ("-d afterok:ses_1:ses_2,afterany:ses_3", "-r cpu=1 --after ses_1 --after ses_2 --after-any ses_3"),
        ("--signal=B:USR1@120", "-r cpu=1 --checkpoint-signal USR1 --grace 120s"),
        ("--signal RB:10", "-r cpu=1 --checkpoint-signal 10 --grace 60s"),
        ("-d singleton", "-r cpu=1 --after-any @same-name"),
        ("--export=NONE,A=1,B=2", "-r cpu=1 -e A=1 -e B=2"),
    ],
)  # fmt: skip
def test_slurm_directives_are_translated_to_options(given: str, expected: str) -> None:
    found = slurm_words(given.split())
    assert (" ".join(found.words), found.notes) == (expected, ())


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ("-o slurm-%j.out -e slurm.err", ["output", "error"]),
        ("--mail-type=END --mail-user a@b", ["mail-type", "mail-user"]),
        ("--exclusive --qos=high -C a100", ["exclusive", "qos", "constraint"]),
        ("--gres=shard:3,license:1", ["gres=shard:3", "gres=license:1"]),
    ],
)
def test_ignored_slurm_directives_are_reported(given: str, named: list[str]) -> None:
    found = slurm_words(given.split())
    assert found.words == ("-r", "cpu=1")
    assert [note.split()[1].removeprefix("--") for note in found.notes] == named


def test_only_the_first_of_several_slurm_gpu_types_is_requested() -> None:
    found = slurm_words(["--gpus=a100:2,h100:1"])
    assert found.words == ("-r", "cpu=1", "-r", "gpu=2", "--model", "*a100*")
    assert "--gpus=h100:1 is ignored" in found.notes[0]


def test_ignored_slurm_dependencies_are_reported() -> None:
    found = slurm_words(["-d", "afterok:ses_1,after:ses_2+5,expand:ses_3"])
    assert found.words == ("-r", "cpu=1", "--after", "ses_1")
    assert [note.split()[1] for note in found.notes] == ["--dependency=after:ses_2+5", "--dependency=expand:ses_3"]


def test_a_slurm_dependency_on_any_of_several_is_refused() -> None:
    with pytest.raises(SlurmError, match="waits for all"):
        slurm_words(["-d", "afterok:ses_1?afterany:ses_2"])


def test_a_slurm_signal_for_the_steps_of_a_script_is_reported_to_go_to_the_script() -> None:
    found = slurm_words(["--signal=USR1"])
    assert found.words[2:] == ("--checkpoint-signal", "USR1", "--grace", "60s")
    assert "the script itself gets it" in found.notes[0]
    with pytest.raises(SlurmError, match="write it like USR1@120"):
        slurm_words(["--signal=USR1@soon"])


def test_slurm_export_all_is_reported_as_not_passed_on() -> None:
    assert "not passed on" in slurm_words(["--export=ALL,A=1"]).notes[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 5400), ("2:30", 150), ("1:00:00", 3600), ("2-0", 172_800), ("1-12:30", 131_400), ("0-0:0:5", 5)],
)
def test_slurm_times_are_parsed(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "1h", "1:2:3:4", "-5", "1-2:3:4:5"])
def test_invalid_slurm_times_are_refused(text: str) -> None:
    with pytest.raises(SlurmError, match="--time"):
        seconds(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("4", 2**22), ("1K", 1024), ("2g", 2**31), ("1T", 2**40), ("1GB", 2**30)]
)
def test_slurm_memory_sizes_are_parsed(text: str, expected: int) -> None:
    assert memory_bytes(text) == expected


@pytest.mark.parametrize("words", [["--mem=lots"], ["--array=0-x"], ["--time=soon"]])
def test_invalid_slurm_values_are_refused(words: list[str]) -> None:
    with pytest.raises(SlurmError, match=words[0].split("=")[1]):
        slurm_words(words)


@pytest.mark.parametrize(
    ("head", "options", "said"),
    [
        ("#SBATCH --time=90", [], "time limit 1 h 30 min"),
        ("#ALIQUOT -t 2h30", [], "time limit 2 h 30 min"),
        ("#SBATCH --time=90", ["-t", "90"], "time limit 90 s (1 min 30 s). Slurm reads -t 90 as minutes"),
    ],
)
def test_a_submission_reports_the_parsed_time_limit(
    head: str, options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, _ = _submitted(tmp_path, monkeypatch, head=head, options=options)
    assert f"aliquot: {said}" in outcome.stderr
    assert outcome.stdout == ""


@pytest.mark.parametrize(
    ("head", "options", "expected"),
    [
        ("", ["--array", "1-10%2"], ("1-10", 2)),
        ("", ["-a", "1-6:2,9%2", "--max-parallel", "2"], ("1,3,5,9", 2)),
        ("", ["--array", "1-6:2", "--max-parallel", "3"], ("1,3,5", 3)),
        ("#ALIQUOT --array 0-3%2", [], ("0-3", 2)),
        ("#SBATCH --array=0-15%4", ["--array", "0-9%2"], ("0-9", 2)),
        ("#SBATCH --array=0-15%4", ["--max-parallel", "3"], ("0-15", 3)),
    ],
)
def test_an_array_may_be_written_as_in_slurm(
    head: str, options: list[str], expected: tuple[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, sent = _submitted(tmp_path, monkeypatch, head=head, options=options)
    assert [(one.array, one.max_parallel) for one in sent] == [expected], outcome.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--array", "0-99999999999:2"], "0-99999999999:2: an array has at most 100,000 tasks"),
        (["--array", "0-9%2", "--max-parallel", "3"], "--array 0-9%2 and --max-parallel 3: give one limit"),
        (["--array", "0-9%x"], "--array 0-9%x: write it like 0-15, 1,3,5 or 0-15%4"),
    ],
)
def test_an_invalid_parallel_limit_in_an_array_is_refused(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, sent = _submitted(tmp_path, monkeypatch, head="", options=options)
    assert (outcome.exit_code, outcome.stderr, sent) == (2, f"aliquot: {said}\n", [])


def _submitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, head: str, options: list[str]
) -> tuple[Result, list[CreateSessionInput]]:
    """Submit a script with a directive, without a server; return the inputs."""
    sent: list[CreateSessionInput] = []
    module = importlib.import_module("aliquot.cli.session.submit")
    monkeypatch.setattr(module, "submit", lambda _, wanted, **__: sent.append(wanted))
    script, token = folder / "job.sh", folder / "token"
    script.write_text(f"#!/bin/sh\n{head}\ntrue\n")
    token.write_text("none")
    token.chmod(0o600)
    place = ["--server", "http://127.0.0.1:9", "--token-file", str(token)]
    return CliRunner().invoke(main, ["session", "create", *options, *place, str(script)]), sent
