"""Saved runs lived again by a function of the user's own, and what the command says of it."""

from __future__ import annotations

import json
import sys
from itertools import count

import pytest

from lastcall import Call, Guard, Policy, Where
from lastcall.cli import main
from lastcall.course import Course
from lastcall.recording import Recorder
from lastcall.tape import Tape
from lastcall.transcripts import Transcript, read
from lastcall.transcripts.prompt import prompts

NUMBERS = count()


def line(name, result=None, /, **args):
    more = {} if result is None else {"result": result}
    return json.dumps({"name": name, "args": args, **more})


@pytest.fixture
def live(tmp_path, monkeypatch, capsys):
    """Lives *lines* again with an agent out of *source*."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def play(source, lines, *words, name="agent", json_too=True, prompt="go"):
        module = f"lived_{next(NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(source)
        (tmp_path / "run.jsonl").write_text("\n".join(lines))
        told = ["--prompt", prompt] * (prompt is not None) + ["--json"] * json_too
        code = main(["replay", "--live", f"{module}:{name}", *told, *words, "run.jsonl"])
        out, err = capsys.readouterr()
        if json_too:
            out = [json.loads(each) for each in out.splitlines()]
        return code, out, err, sys.modules.get(module)

    return play


PLAIN = """
SAID = []

def agent(prompt, tools):
    SAID.append((prompt, sorted(tools), len(tools)))
    for n in range(5):
        SAID.append(tools["look"](q=n % 2))
    return "done"

async def awaited(prompt, tools):
    return await tools["look"](q=0)

class Agent:
    async def __call__(self, prompt, tools):
        return await tools["look"](q=1)

by_class = Agent()

def made():
    return agent

def stubborn(prompt, tools):
    from lastcall import Stopped
    for _ in range(30):
        try:
            tools["look"](q=0)
        except Stopped as stopped:
            SAID.append(stopped.stop.reason)
    tools["look"](q=0)

def failing(prompt, tools):
    try:
        tools["look"](q=0)
    except Exception as error:
        SAID.append(type(error.__cause__).__name__)

def broken(prompt, tools):
    raise ConnectionError("no route to\\nhost") from OSError("network is down")

def unmade():
    raise KeyError("MODEL_KEY")

def nothing():
    return 5

def three(prompt, tools, more):
    pass

def named(prompt, *, tools):
    pass
"""
LINES = [line("look", "nothing", q=0), line("look", "found", q=1), line("look", "more", q=0)]


class TestFunctions:
    def test_get_the_prompt_and_tools_that_answer_as_recorded(self, live):
        code, (done,), _, module = live(PLAIN, LINES)
        assert code == 0
        assert module.SAID == [
            ("go", ["look"], 1), "nothing", "found", "more", "found", "more",
        ]  # fmt: skip
        assert (done["calls"], done["recorded"], done["output"]) == (5, 3, "done")
        assert done["diverged"] == {"index": 3, "tool": "look", "recorded": None}

    @pytest.mark.parametrize(("name", "said"), [("awaited", "nothing"), ("by_class", "found")])
    def test_may_be_awaited(self, live, name, said):
        code, (done,), _, _ = live(PLAIN, LINES, name=name)
        assert (code, done["output"]) == (0, said)

    def test_are_stopped_by_an_exception(self, live):
        code, (done,), _, module = live(PLAIN, LINES[:1], "--expect", "stop", name="stubborn")
        assert code == 0
        assert set(module.SAID) == {"same", "refusals"}
        assert (done["error"], done["calls"]) == (None, 31)
        code, (done,), _, _ = live(PLAIN, LINES[:1], "--expect", "clean", name="stubborn")
        assert code == 1

    def test_hear_of_failures_by_an_exception(self, live):
        failed = json.dumps({"name": "look", "args": {"q": 0}, "result": "no such", "status": 422})
        code, (done,), _, module = live(PLAIN, [failed], name="failing")
        assert (code, module.SAID) == (0, ["RecordedFailure"])
        assert [(stop["reason"], stop["status"]) for stop in done["stops"]] == [("terminal", 422)]

    def test_are_told_of_what_was_not_recorded(self, live):
        source = "def agent(prompt, tools):\n    return tools['else'](q=1)"
        _, (done,), _, _ = live(source, LINES)
        assert done["output"].startswith("There is no recording of this call of else.")
        assert done["diverged"] == {"index": 0, "tool": "else", "recorded": "look"}

    def test_are_told_of_results_that_were_not_recorded(self, live):
        source = "def agent(prompt, tools):\n    return tools['look'](q=1)"
        _, (done,), _, _ = live(source, [line("look", q=1)])
        assert (done["unrecorded"], done["diverged"]) == (1, None)


def test_calls_of_one_reply_may_come_in_any_order(live):
    source = "def agent(prompt, tools):\n    tools['b'](); tools['a'](); tools['c']()"
    lines = [
        json.dumps({"name": n, "args": {}, "result": 1, "reply": str(n == "c")}) for n in "abc"
    ]
    assert live(source, lines)[1][0]["diverged"] is None
    source = "def agent(prompt, tools):\n    tools['c'](); tools['a'](); tools['b']()"
    assert live(source, lines)[1][0]["diverged"]["index"] == 0


TURNS = [json.dumps({"name": n, "args": {}, "result": n, "turn": n}) for n in "abc"]


def test_one_prompt_is_one_turn(live):
    source = "def agent(prompt, tools):\n    tools['a']()"
    _, (done,), _, _ = live(source, TURNS)
    assert (done["recorded"], done["diverged"]) == (1, None)
    assert done["not_lived"] == {"turns": 2, "why": "--prompt has the words of 1 turn"}
    _, out, _, _ = live(source, TURNS, json_too=False)
    assert out.splitlines()[1:] == [
        "       as recorded, call by call",
        "       2 turns not lived: --prompt has the words of 1 turn",
    ]


def test_prompts_are_turn_by_turn(live):
    source = "def agent(prompt, tools):\n    return tools[prompt]()"
    more = ("--prompt", "b", "--prompt", "c")
    _, (done,), _, _ = live(source, TURNS, *more, prompt="a")
    assert [(turn["turn"], turn["output"]) for turn in done["turns"]] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
    ]
    assert (done["diverged"], done["not_lived"], done["output"]) == (None, None, "c")
    _, (done,), _, _ = live(source, TURNS[:1], *more, prompt="a")
    assert [turn["recorded"] for turn in done["turns"]] == [1, 0, 0]
    assert (done["unrecorded"], done["not_lived"]) == (2, None)


def test_arguments_that_change_are_declared_by_the_policy(live, tmp_path):
    source = "def agent(prompt, tools):\n    return tools['look'](q=1, at='now')"
    lines = [line("look", "found", q=1, at="then")]
    (tmp_path / "p.toml").write_text('[tools.look]\nvolatile = ["at"]\n')
    assert live(source, lines)[1][0]["unrecorded"] == 1
    _, (done,), _, _ = live(source, lines, "--policy", "p.toml")
    assert (done["unrecorded"], done["output"], done["diverged"]) == (0, "found", None)


def test_a_person_reads_where_it_diverged_and_was_stopped(live):
    code, out, err, _ = live(PLAIN, LINES, name="stubborn", json_too=False)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "stop   run.jsonl  live: 31 calls in 0 requests; recorded: 3",
        "       diverged at call 2: look; recorded: look with other arguments",
        out.splitlines()[2],
    ]
    assert out.splitlines()[2].startswith("       call 5, look (same, scope call, fingerprint ")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent", "there is no absent in lived_"),
        ("agnt", "did you mean 'agent'?"),
        ("SAID", "an object of builtins.list is no agent that is known here"),
        ("three", "the function three(prompt, tools, more) is no agent"),
        ("named", "the function named(prompt, *, tools) is no agent"),
        ("nothing", "an object of builtins.int is no agent"),
        ("unmade", "making the agent failed: KeyError: 'MODEL_KEY'"),
    ],
)
def test_what_is_no_agent_is_explained(live, name, problem):
    code, out, err, _ = live(PLAIN, LINES, name=name)
    assert (code, out) == (2, [])
    assert problem in err
    assert "--live lived_" in err


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("nowhere:agent", "there is no module nowhere, neither in "),
        ("json.nowhere:agent", "there is no module json.nowhere"),
        ("json", "write module:attribute"),
        (":agent", "write module:attribute"),
        (
            "needy:agent",
            "importing needy failed: ModuleNotFoundError: No module named 'missing_dep'",
        ),
        ("wrong:agent", "importing wrong failed: SyntaxError: "),
    ],
)
def test_modules_that_do_not_import_are_explained(tmp_path, monkeypatch, capsys, agent, problem):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "needy.py").write_text("import missing_dep")
    (tmp_path / "wrong.py").write_text("def agent(:")
    (tmp_path / "run.jsonl").write_text("\n".join(LINES))
    assert main(["replay", "--live", agent, "--prompt", "go", "run.jsonl"]) == 2
    out, err = capsys.readouterr()
    assert (out, problem in err) == ("", True), err


def test_an_agent_that_fails_is_named_with_why(live):
    code, (done,), _, _ = live(PLAIN, LINES, name="broken")
    assert code == 2
    assert done["error"] == ("ConnectionError: no route to host (from OSError: network is down)")
    _, out, _, _ = live(PLAIN, LINES, name="broken", json_too=False)
    assert "its model is asked for real: are its key and network there?" in out


@pytest.mark.parametrize(
    "words",
    [("--what-if", "strict"), ("--good", "run.jsonl")],
)
def test_words_that_do_not_go_together(live, words):
    assert live(PLAIN, LINES, *words)[0] == 2


def test_a_prompt_is_for_living_alone(tmp_path, capsys):
    (tmp_path / "run.jsonl").write_text("\n".join(LINES))
    assert main(["replay", "--prompt", "go", str(tmp_path)]) == 2
    assert "--live" in capsys.readouterr().err


def test_without_a_prompt_it_is_asked_for(live):
    code, out, err, _ = live(PLAIN, LINES, prompt=None)
    assert (code, out) == (2, [])
    assert (
        "run.jsonl [run]: what the user said is not found in it; say it with --prompt TEXT" in err
    )


def test_no_transcripts_at_all(live):
    code, out, err, _ = live(PLAIN, ["just words"])
    assert (code, out) == (2, [])
    assert "run.jsonl" in err


CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": [{"type": "text", "text": "Where is my order?"}]},
    {
        "role": "assistant",
        "tool_calls": [
            {"id": "1", "function": {"name": "look", "arguments": '{"role": "user", "q": 0}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "1", "content": "here"},
    {"role": "user", "content": "Thanks."},
]


def test_the_prompt_of_a_conversation_is_its_own(live, tmp_path):
    source = "def agent(prompt, tools):\n    tools['look'](role='user', q=0)\n    return prompt"
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    code, done, _, _ = live(source, LINES, "chat.json", prompt=None)
    assert code == 2, "the log beside it has none"
    (tmp_path / "run.jsonl").unlink()
    assert [each["output"] for each in done] == ["Where is my order?"]
    assert done[0]["diverged"] is None


def conversation(*turns, last="Bye."):
    """Messages of as many turns, each with a call of `look` for the number of its turn."""
    for n, words in enumerate(turns):
        asked = {"name": "look", "arguments": json.dumps({"q": n % 2})}
        yield {"role": "user", "content": words}
        yield {"role": "assistant", "tool_calls": [{"id": f"c{n}", "function": asked}]}
        yield {"role": "tool", "tool_call_id": f"c{n}", "content": f"answer {n}"}
        yield {"role": "assistant", "content": last}


@pytest.fixture
def living(tmp_path, monkeypatch, capsys):
    """Lives a conversation again by a function."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def play(source, messages, *words, name="agent"):
        module = f"lived_{next(NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(source)
        (tmp_path / "chat.json").write_text(json.dumps(list(messages)))
        code = main(["replay", "--live", f"{module}:{name}", *words, "chat.json"])
        return code, capsys.readouterr().out

    return play


REMEMBERS = """
def made():
    before = []

    def agent(prompt, tools):
        before.append(prompt)
        return f"{before} {tools['look'](q=(len(before) - 1) % 2)}"

    return agent
"""


class TestTurns:
    def test_a_function_is_called_once_a_turn(self, living):
        code, out = living(REMEMBERS, conversation("a", "b", "c"), "--json", name="made")
        done = json.loads(out)
        assert (code, done["diverged"], done["not_lived"], done["recorded"]) == (0, None, None, 3)
        assert [turn["output"] for turn in done["turns"]] == [
            "['a'] answer 0", "['a', 'b'] answer 1", "['a', 'b', 'c'] answer 2",
        ]  # fmt: skip
        assert done["output"] == "['a', 'b', 'c'] answer 2"

    def test_all_went_as_recorded(self, living):
        _, out = living(REMEMBERS, conversation("a", "b", "c"), name="made")
        assert out.splitlines() == [
            "clean  chat.json  live: 3 calls in 0 requests of 3 turns; recorded: 3",
            "       as recorded, call by call",
        ]

    def test_it_is_told_in_which_turns_it_diverged(self, living):
        source = "def agent(prompt, tools):\n    return tools['look'](q=0)"
        _, out = living(source, conversation("a", "b", "c", "d"))
        assert out.splitlines()[1:] == [
            "       turn 2 diverged at call 2: look; recorded: look with other arguments",
            "       turn 4 diverged at call 4: look; recorded: look with other arguments",
        ]

    def test_an_answer_is_that_of_the_turn_else_of_one_before_else_of_one_after(self, living):
        source = (
            "def agent(prompt, tools):\n    look = tools['look']\n"
            "    return [look(q=1), look(q=0), look(q=1)]"
        )
        _, out = living(
            source, conversation("a", "b", "c", "d"), "--json", "--policy", "permissive"
        )
        assert [turn["output"] for turn in json.loads(out)["turns"]] == [
            "['answer 1', 'answer 0', 'answer 1']",
            "['answer 1', 'answer 0', 'answer 1']",
            "['answer 1', 'answer 2', 'answer 1']",
            "['answer 3', 'answer 2', 'answer 3']",
        ]

    def test_a_turn_that_a_stop_ends_is_followed_by_the_next(self, living, tmp_path):
        (tmp_path / "one.toml").write_text("max_calls = 1\n")
        source = (
            "def agent(prompt, tools):\n    tools['look'](q=0)\n"
            "    return tools['look'](q=1) if prompt == 'b' else prompt"
        )
        _, out = living(source, conversation("a", "b", "c"), "--json", "--policy", "one.toml")
        done = json.loads(out)
        assert [turn["stopped"] for turn in done["turns"]] == [False, True, False]
        assert [turn["output"] for turn in done["turns"]] == ["a", None, "c"]
        assert [(stop["index"], stop["scope"]) for stop in done["stops"]] == [(2, "turn")]

    def test_a_wider_stop_ends_all_also_where_the_agent_goes_on(self, living, tmp_path):
        (tmp_path / "thread.toml").write_text(
            '[[rules.budget.limits]]\nquantity = "calls"\nper = "thread"\nwindow = "hour"\nmost = 2\n'
        )
        source = (
            "from lastcall import Stopped\n"
            "def agent(prompt, tools):\n"
            "    for _ in range(9):\n"
            "        try:\n"
            "            tools['look'](q=0)\n"
            "        except Stopped:\n"
            "            pass\n"
        )
        _, out = living(source, conversation("a", "b", "c"), "--policy", "thread.toml")
        assert out.splitlines()[-1] == (
            "       2 turns not lived: a stop of scope thread ended it in turn 1"
        )
        _, out = living(source, conversation("a", "b", "c"), "--json")
        done = json.loads(out)
        assert "run" in [stop["scope"] for stop in done["stops"]]
        assert done["not_lived"] is None, "the next turn is another run"

    def test_a_failure_is_told_with_its_turn(self, living):
        source = "def agent(prompt, tools):\n    return {'a': 'x'}[prompt]"
        code, out = living(source, conversation("a", "b", "c"))
        assert code == 2
        assert out.splitlines()[-2].startswith("       turn 2: the agent failed: KeyError: 'b'")
        assert out.splitlines()[-1] == "       1 turn not lived: the agent failed in turn 2"

    def test_a_guard_of_the_agents_own_ends_its_turn(self, living):
        source = (
            "from lastcall import Guard, Policy\n"
            "own = Guard(Policy(max_calls=1))\n"
            "def agent(prompt, tools):\n"
            "    with own.within(run=prompt):\n"
            "        for n in range(2):\n"
            "            with own.calling('ask', {'n': n}):\n"
            "                pass\n"
        )
        _, out = living(source, conversation("a", "b"))
        assert [line[:40] for line in out.splitlines()[1:]] == [
            "       as recorded, call by call",
            "       turn 1: ended by a guard of its o",
            "       turn 2: ended by a guard of its o",
        ]

    def test_words_that_are_no_text_end_it(self, living):
        picture = [{"type": "image_url", "image_url": {"url": "data:"}}]
        source = "def agent(prompt, tools):\n    return tools['look'](q=0)"
        _, out = living(source, conversation("a", picture, "c"))
        assert out.splitlines()[-1] == (
            "       2 turns not lived: what the user said then is no text"
        )

    def test_secrets_in_what_turns_said_are_redacted(self, living):
        source = "def agent(prompt, tools):\n    return 'ann@example.com'"
        _, out = living(source, conversation("a", "b"), "--json")
        assert "ann@example.com" not in out


def test_each_run_of_a_file_has_its_own_prompt(tmp_path):
    other = [{"role": "user", "content": "And mine?"}, *CHAT[2:]]
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(json.dumps({"messages": each}) for each in (CHAT, other)))
    assert prompts(path, "openai-chat-messages", 2) == ["Where is my order?", "And mine?"]
    assert prompts(path, "openai-chat-messages", 3) == [None] * 3
    assert prompts(path, "jsonl", 1) == [None]
    assert prompts(tmp_path / "absent", "openai-chat-messages", 1) == [None]


def test_most_real_runs_tell_what_the_user_said(corpus):
    told = {}
    for row in map(json.loads, (corpus / "index.jsonl").read_text().splitlines()):
        form = row["format"]
        if len(told.setdefault(form, [])) >= 5:
            continue
        path = corpus / row["file"]
        runs = [each for each in read(path) if isinstance(each, Transcript)]
        told[form] += [said is not None for said in prompts(path, form, len(runs))][:5]
    share = {form: sum(found) / len(found) for form, found in told.items() if found}
    print(share)
    assert {form for form, each in share.items() if each == 1} >= {
        "tau-bench-traj", "tau2-results", "openai-chat-messages",
    }  # fmt: skip


def test_what_cannot_be_lived_is_named_and_the_rest_is_lived(live, tmp_path):
    source = "class A:\n    @staticmethod\n    def b(prompt, tools):\n        return prompt"
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    (tmp_path / "broken.json").write_text("[{")
    code, (done,), err, _ = live(source, LINES, ".", prompt=None, name="A.b")
    assert code == 2
    assert done["output"] == "Where is my order?"
    assert [part in err for part in ("broken.json: ", "run.jsonl [run]: what the user said")] == [
        True,
        True,
    ]


def test_what_is_beside_a_transcript_is_expected_of_its_life(live, tmp_path):
    source = "def agent(prompt, tools):\n    for n in range(9): tools['look'](q=0)"
    path = tmp_path / "night.transcript.jsonl"
    path.write_text(LINES[0])
    beside = tmp_path / "night.expect.toml"
    beside.write_text('policy = "strict"\nexpect = "stop"\nreason = "refusals"\nby_call = 3\n')
    words = ("--expect", "recorded", str(path))
    code, done, _, _ = live(source, LINES, *words)
    assert (code, [len(each["stops"]) > 0 for each in done]) == (1, [True, True])
    code, out, _, _ = live(source, LINES, *words, json_too=False)
    assert out.count("NOT AS EXPECTED") == 1
    assert "run.jsonl  live: 5 calls in 0 requests; recorded: 3  NOT AS EXPECTED" in out


def test_a_framework_that_cannot_be_loaded_says_how(live, monkeypatch):
    """Where its extra is missing, the adapter's own words."""
    monkeypatch.setitem(sys.modules, "langchain_core", sys)
    monkeypatch.setitem(sys.modules, "lastcall_langchain.live", None)
    code, _, err, _ = live(PLAIN, LINES, name="SAID")
    assert code == 2
    assert "--live import of lastcall_langchain.live" in err


@pytest.mark.parametrize("key", [None, b"a key of 16 bytes"])
def test_a_recording_under_a_key_answers_too(tmp_path, key):
    recorder = Recorder(tmp_path, fingerprint_key=key)
    guard = Guard(listeners=[recorder])
    with guard.within(run="r"), guard.calling("look", {"q": 1}) as call:
        call.result("found")
    recorder.close()
    (run,) = read(next(tmp_path.iterdir()))
    look = Call("look", {"q": 1}, Where("r", "t"))
    assert Tape(run.calls, Guard()).answer_to(look).content == "found"
    course = Course(Policy())
    course.decided(look, (), 0.0)
    assert course.diverged(run.calls, ended=True) is None
