"""The ready workflow and the hook, run by their own commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

BIN = Path(sys.executable).parent


@pytest.fixture
def project(tmp_path, root):
    """Somebody's repository: a good run, and the night, which must be stopped."""
    runs = tmp_path / "runs"
    runs.mkdir()
    rows = [
        {"ts": n, "name": "look", "args": {"n": n}, "status": 200, "result": f"page {n}"}
        for n in range(5)
    ]
    (runs / "good.transcript.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    night = (root / "examples" / "night-422.jsonl").read_text()
    (runs / "night.transcript.jsonl").write_text(night)
    (runs / "night.expect.toml").write_text('expect = "stop"\nreason = "terminal"\nby_call = 6\n')
    return tmp_path


def shell(command, folder, **environ):
    """Runs *command* as a runner would, with the packages that are installed here."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    # langsmith's plugin takes longer to import than pytest.
    plugins = "-p no:cacheprovider -p no:langsmith_plugin"
    kept = {"PATH": path, "HOME": str(folder), "PYTEST_ADDOPTS": plugins}
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", command],
        cwd=folder,
        env={**kept, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


class TestWorkflow:
    @pytest.fixture
    def steps(self, root):
        """Its commands by name, in order."""
        text = (root / "examples" / "ci" / "github-actions.yml").read_text()
        (job,) = yaml.safe_load(text)["jobs"].values()
        return {step["name"]: step["run"] for step in job["steps"] if "run" in step}

    def test_what_it_installs_is_what_runs_here(self, steps):
        program, word, *names = steps["Install"].split()
        assert (program, word) == ("pip", "install")
        assert all(version(name) for name in names)

    def test_every_step_passes(self, steps, project):
        summary = project / "summary.md"
        for name, command in steps.items():
            if name != "Install":
                code, out = shell(command, project, GITHUB_STEP_SUMMARY=str(summary))
                assert code == 0, out
        assert "create_reminder" in summary.read_text()
        assert 'tests="2"' in (project / "transcripts.xml").read_text()
        assert "create_reminder" in (project / "transcripts.html").read_text()

    def test_what_it_keeps_is_what_its_steps_made(self, root, steps):
        text = (root / "examples" / "ci" / "github-actions.yml").read_text()
        (job,) = yaml.safe_load(text)["jobs"].values()
        (upload,) = [
            step["with"]["path"] for step in job["steps"] if "path" in step.get("with", {})
        ]
        assert all(any(name in command for command in steps.values()) for name in upload.split())

    def test_a_run_that_is_not_as_expected_fails_both(self, steps, project):
        (project / "runs" / "night.expect.toml").unlink()
        for command in list(steps.values())[1:3]:
            code, out = shell(command, project)
            assert code == 1
            assert "call 6 would have been the last" in out


class TestHook:
    @pytest.fixture
    def commit(self, project, root):
        """Makes it a repository with the hook, which runs with what is installed; gives its runner."""
        pytest.importorskip("pre_commit")
        (hook,) = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text())
        # `language: python` would install Lastcall anew, over the network.
        here = {**hook, "language": "system"}
        config = {"repos": [{"repo": "local", "hooks": [here]}]}
        (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
        assert shell("git init -q . && git add -A", project)[0] == 0

        def commit(*files):
            words = f"--files {' '.join(files)}" if files else "--all-files"
            home = str(project / "cache")
            return shell(f"pre-commit run --color never {words}", project, PRE_COMMIT_HOME=home)

        return commit

    def test_it_passes_what_is_as_expected(self, commit):
        code, out = commit()
        assert code == 0, out
        assert "Passed" in out

    def test_a_changed_expectation_is_tried_though_its_transcript_is_as_it_was(
        self, project, commit
    ):
        (project / "runs" / "night.expect.toml").write_text('expect = "clean"')
        code, out = commit("runs/night.expect.toml")
        assert code == 1
        assert "call 6 would have been the last" in out

    def test_other_files_are_none_of_its_business(self, project, commit):
        (project / "notes.jsonl").write_text("dear diary")
        code, out = commit("notes.jsonl")
        assert code == 0
        assert "Skipped" in out
