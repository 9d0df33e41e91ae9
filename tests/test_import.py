"""What an import loads, and that threads which are the first to ask for a name find it whole."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import lastcall
import lastcall.rules
from lastcall.doors import doors


def told(code: str, *args: str) -> str:
    """What *code* prints in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_packages_behind_doors_load_no_room():
    code = """
        import sys, lastcall
        loaded = lambda: print(*sorted(name for name in sys.modules if name.startswith("lastcall")))
        loaded()
        import lastcall.rules, lastcall.stores
        loaded()
    """
    assert told(code).splitlines() == [
        "lastcall lastcall.doors lastcall.footing",
        "lastcall lastcall.doors lastcall.footing lastcall.rules lastcall.stores",
    ]


def loads(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that run when the module is loaded."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for other in node.orelse:
                yield from loads(other)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from loads(node)


def test_rooms_load_each_other_in_one_direction():
    # Else a thread that loads one and another that loads the other would each wait for the other's.
    root = Path(lastcall.__file__).parent
    paths = {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): path
        for path in root.rglob("*.py")
        if path.name != "__init__.py"
    }
    rooms: dict[str, set[str]] = {}
    for name, path in paths.items():
        needs = rooms[name] = set()
        for each in loads(ast.parse(path.read_text())):
            source = getattr(each, "module", None)
            for alias in each.names:
                wanted = f"{source}.{alias.name}" if source else alias.name
                if (
                    source in {"lastcall", "lastcall.rules", "lastcall.stores"}
                    and wanted not in paths
                ):
                    # A name behind a door.
                    behind = getattr(importlib.import_module(source), alias.name)
                    source = getattr(behind, "__module__", wanted)
                needs |= {wanted, source} & paths.keys()
    order = list(TopologicalSorter(rooms).static_order())
    assert order.index("lastcall.rules.ceiling") < order.index("lastcall.policy")
    assert order.index("lastcall.stores.memory") < order.index("lastcall.guard")


def test_rooms_load_nothing_from_outside():
    # Several threads may open several rooms at once; most libraries bear that only when they are loaded.
    code = """
        import sys, lastcall
        loaded = set(sys.modules)
        from lastcall import *
        from lastcall.rules import *
        from lastcall.stores import *
        guard = Guard()
        with guard.within(run="r"):
            guard.decide(Call("search"))
        assert guard.report("r")
        print(*sorted(name for name in set(sys.modules) - loaded if not name.startswith("lastcall")))
    """
    assert told(code) == ""


def test_a_guard_loads_what_it_decides_with_and_nothing_beside():
    code = """
        import sys
        from lastcall import Call, Guard
        guard = Guard()
        rooms = {name for name in sys.modules if name.startswith("lastcall.")}
        print(sorted(rooms & {f"lastcall.{room}" for room in (
            "incident", "rules.breaker", "rules.budget", "rules.concurrency", "rules.cooling", "rules.path",
            "rules.quarantine", "retrying", "replay", "stores.redis", "stores.sqlite", "transcripts",
        )}), "tomllib" in sys.modules)
        with guard.within(run="r"):
            verdict = guard.decide(Call("search", {"q": 1}))
            guard.observe(verdict.ticket, guard.returned(verdict.ticket, "found"))
            print(sorted({name for name in sys.modules if name.startswith("lastcall.")} - rooms))
    """
    # Deciding loads nothing any more: an event loop would wait for it.
    assert told(code).splitlines() == ["[] False", "[]"]


@pytest.mark.parametrize("package", ["lastcall", "lastcall.rules"])
def test_every_name_may_be_the_first(package):
    code = """
        import importlib, sys
        for name in importlib.import_module(sys.argv[1]).__all__:
            for module in [each for each in sys.modules if each.split(".")[0] == "lastcall"]:
                del sys.modules[module]
            assert getattr(importlib.import_module(sys.argv[1]), name).__name__ == name
        print("all")
    """
    assert told(code, package) == "all"


@pytest.mark.parametrize("package", [lastcall, lastcall.rules])
def test_names_and_rooms_are_attributes_and_others_are_not(package):
    assert set(package.__all__) <= set(dir(package))
    assert {name for name in dir(package) if name[0].isupper()} - {"TYPE_CHECKING"} == set(
        package.__all__
    )
    with pytest.raises(
        AttributeError, match=rf"module '{package.__name__}' has no attribute 'Gaurd'"
    ):
        package.Gaurd  # noqa: B018 - it is the reading that fails
    with pytest.raises(AttributeError):
        package.__wrapped__  # noqa: B018
    for name in ("guard.Guard", "same.Same", "", "1", "a b"):
        assert not hasattr(package, name)


def test_what_a_guard_gives_is_known_to_who_asks_for_its_types():
    # As frameworks do, to make a tool or an endpoint of a method.
    code = """
        import typing
        from lastcall import Guard
        print(typing.get_type_hints(Guard.report)["return"])
    """
    assert told(code) in (
        "lastcall.incident.Incident | None",
        "typing.Optional[lastcall.incident.Incident]",
    )


def test_rooms_are_found_after_a_plain_import():
    code = "import lastcall; print(lastcall.rules.Breaker.name, lastcall.stores.memory.MemoryStore.__name__)"
    assert told(code) == "breaker MemoryStore"


def test_what_a_room_lacks_is_said_and_not_hidden(tmp_path, monkeypatch):
    tmp_path.joinpath("house").mkdir()
    tmp_path.joinpath("house", "__init__.py").write_text("")
    tmp_path.joinpath("house", "cellar.py").write_text("import a_library_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found, _ = doors({"__name__": "house"}, {"cellar": ("Wine",)})
    for name in ("Wine", "cellar"):
        with pytest.raises(ModuleNotFoundError, match="a_library_that_nobody_has"):
            found(name)


# Each thread asks for all names in an order of its own, and uses what it was given at once.
THREADS = """
    import importlib, pickle, random, sys, threading
    from concurrent.futures import ThreadPoolExecutor

    sys.setswitchinterval(1e-5)
    THREADS, SEED = 16, int(sys.argv[1])
    ROOMS = ("guard", "stores.memory", "rules.budget", "policy", "stop", "incident", "switch", "stores.sqlite")
    TOML = '''
    max_attempts = 2
    [rules.ceiling]
    calls = 7
    [rules.breaker]
    failures = 2
    [[rules.budget.limits]]
    quantity = "tokens"
    most = 100
    [rules.concurrency]
    limit = 3
    [tools."search_*"]
    reads = true
    max_calls = 3
    '''
    # Python may say of a package that has just been loaded by another thread that it is not there (KeyError).
    import lastcall, lastcall.rules, lastcall.stores
    start = threading.Barrier(THREADS)

    def rules(lastcall):
        from lastcall import rules
        names = [name for name in rules.__all__]
        random.shuffle(names)
        for name in names:
            rule = getattr(rules, name)
            assert rule.__pydantic_complete__
            assert rule.model_json_schema()["title"] == name
        class Mine(rules.Settings, frozen=True):
            limit: int = 3
        assert Mine(limit=4).model_dump() == {"enforce": True, "limit": 4}
        try:
            Mine(limt=4)
        except ValueError as error:
            assert error.errors()[0]["type"] == "extra_forbidden"
        else:
            raise AssertionError("a key that nobody knows was taken")

    def policies(lastcall):
        policy = lastcall.Policy.from_toml(TOML)
        assert lastcall.Policy.from_toml(policy.to_toml()) == policy
        assert {rule.name: rule for rule in policy.rules}["ceiling"].calls == 7
        assert pickle.loads(pickle.dumps(policy)) == policy
        assert policy.tool("search_web").model_copy(update={"reads": False}).max_calls == 3
        try:
            lastcall.Policy.from_toml("max_atempts = 2")
        except lastcall.PolicyError as error:
            assert "did you mean 'max_attempts'?" in str(error)
        else:
            raise AssertionError("a key that nobody knows was taken")

    def guards(lastcall):
        guard = lastcall.Guard(lastcall.Policy(max_calls=1))
        with guard.within(run="r"):
            first = guard.decide(lastcall.Call("search", {"q": 1}))
            guard.observe(first.ticket, lastcall.Outcome("ok", "found"))
            stop = guard.decide(lastcall.Call("search", {"q": 2})).stop
        assert isinstance(stop, lastcall.Stop) and stop.reason == "ceiling"
        assert lastcall.Stop.model_validate_json(stop.model_dump_json()) == stop
        incident = guard.report("r")
        assert isinstance(incident, lastcall.Incident) and incident.totals.executed == 1
        assert pickle.loads(pickle.dumps(incident)) == incident
        assert lastcall.Incident.model_json_schema()["properties"]["stops"]

    def names(lastcall):
        every = list(lastcall.__all__)
        random.shuffle(every)
        for name in every:
            assert getattr(lastcall, name).__name__ == name

    def thread(number):
        order = [rules, policies, guards, names]
        random.Random(100 * SEED + number).shuffle(order)
        room = ROOMS[number % len(ROOMS)]
        start.wait()
        # Others are loading what it imports.
        importlib.import_module(f"lastcall.{room}")
        for use in order:
            use(lastcall)

    with ThreadPoolExecutor(THREADS) as pool:
        print(len(list(pool.map(thread, range(THREADS)))))
"""


@pytest.mark.parametrize("seed", range(6))
def test_threads_that_are_the_first_to_ask_find_everything_whole(seed):
    assert told(THREADS, str(seed)) == "16"
