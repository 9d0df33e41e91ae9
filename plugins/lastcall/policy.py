"""What the guard allows: the rules in their order, the tools, and what happens in doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, field_validator

from lastcall.order import inserted
from lastcall.policy_file import (
    PolicyError,
    explained,
    lineup_of,
    literal,
    nearest,
    parsed,
    written,
)
from lastcall.prices import Price
from lastcall.rules import (
    Ceiling,
    Cycle,
    Failing,
    Malformed,
    Near,
    Refusals,
    Repeat,
    Same,
    Stale,
    Streak,
    Terminal,
    Writes,
)
from lastcall.tool import PLAIN, LimitOrNone, Seconds, Status, StatusMap, ToolPolicy

# The order of checks is this order, which `order.py` explains.
DEFAULT: tuple[Any, ...] = (
    Refusals(),
    Malformed(),
    Writes(),
    Terminal(),
    Repeat(),
    Failing(),
    Streak(),
    Same(),
    Near(),
    Cycle(),
    Stale(),
    Ceiling(),
)

REPEATS = frozenset({"repeat", "same", "near", "cycle", "stale", "failing"})
"""Rules about repeats; none of them looks at a tool marked `exempt`."""

SUPERSEDED = frozenset({"same", "failing", "stale"})
"""Rules that stand aside where `max_repeats` says how often an equal call may run."""


RULE = ("name", "kinds", "enforce", "quiet", "record", "start", "before", "refused", "after")
TALLY = ("name", "kinds", "enforce", "takes", "stop", "alert_at", "budget", "settle")
"""What each kind of rule must have; see `contracts.py`."""

KEYS = ("max_calls", "batch", "max_repeats", "max_refusals")
"""The keys of the short form."""


class Policy(BaseModel):
    """What is allowed in one turn. The short form, `Policy(max_calls=8, max_repeats=2)`, adjusts the
    default rules; the long form, `Policy(rules=[...])`, replaces them and sets their order.

    Raises PolicyError for a key or a value that cannot be.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    rules: tuple[Any, ...] = DEFAULT
    """The rules, in the order in which they are asked."""
    tools: Mapping[str, ToolPolicy] = Field(default_factory=dict)
    """What is known of tools, by exact name or by pattern (`search_*`); the first match counts."""
    prices: Mapping[str, Price] = Field(default_factory=dict)
    """What models cost, by exact name or by pattern (`gpt-*`); others by the list of `genai-prices`."""
    enforce: StrictBool = True
    """False: shadow mode. Everything is decided, logged and reported, and nothing is refused."""
    terminal_statuses: tuple[Status, ...] = ()
    """Statuses that are final besides those of the table (requirement A4)."""
    statuses: StatusMap = Field(default_factory=dict)
    """What a status means here; wins over `terminal_statuses`."""
    max_attempts: LimitOrNone = 3
    """How often one call may be started: resumed, retried by a node, approved. None: no limit."""
    on_fault: Literal["closed", "open"] = "closed"
    """What happens to a call that the guard cannot judge because of a fault of its own."""
    on_store: Literal["closed", "open", "last-known"] = "closed"
    """What happens to a call while the store cannot be reached. closed: refused. open: this process goes on
    counting by itself from what it knew last. last-known: the same for *max_staleness* seconds, then closed."""
    max_staleness: Seconds = 30.0
    """Seconds for which the last known state serves while the store cannot be reached."""
    on_unscoped: Literal["warn", "error"] = "warn"
    """What happens to a call outside any run: a run of its own and one warning, or an error."""

    on_stop: Literal["stop", "ask"] = "stop"
    """ask: a person is asked before a call is refused, by the framework's own pause, where it has one."""

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_repeats: int | None = None,
        max_refusals: int | None = None,
        batch: Literal["first", "all-or-none"] | None = None,
        rules: Iterable[Any] | None = None,
        tools: Mapping[str, ToolPolicy | Mapping[str, Any]] | None = None,
        **settings: Any,
    ) -> None:
        short = {
            "max_calls": ("ceiling", "calls", max_calls),
            "batch": ("ceiling", "batch", batch),
            "max_repeats": ("repeat", "max_repeats", max_repeats),
            "max_refusals": ("refusals", "max_refusals", max_refusals),
        }
        if rules is not None and not isinstance(rules, Iterable):
            raise PolicyError(f"rules must be a list of rules, not {rules!r}")
        lineup = DEFAULT if rules is None else tuple(rules)
        if isinstance(tools, Mapping):
            tools = dict(tools)
        try:
            super().__init__(
                rules=adjusted(lineup, short), tools={} if tools is None else tools, **settings
            )
        except ValidationError as error:
            raise PolicyError(explained(error, (*type(self).model_fields, *KEYS))) from None

    @field_validator("rules")
    @classmethod
    def _rules(cls, rules: tuple[Any, ...]) -> tuple[Any, ...]:
        names = [getattr(rule, "name", None) for rule in rules]
        for rule, name in zip(rules, names, strict=True):
            if isinstance(rule, type):
                said = f"{rule.__name__} is a class; the policy takes {rule.__name__}()"
                raise ValueError(said)  # noqa: TRY004 - pydantic turns this one into its own
            cast = TALLY if hasattr(rule, "takes") else RULE
            missing = [part for part in cast if not hasattr(rule, part)]
            if missing:
                raise ValueError(f"{rule!r} is no rule: it has no {' and no '.join(missing)}")
            if not isinstance(name, str) or not name or not name.isprintable() or " " in name:
                raise ValueError(
                    f"{name!r} is no name of a rule: some printable text without blanks"
                )
            if names.count(name) > 1:
                raise ValueError(f"two rules named {name!r}; their records would mix")
        return rules

    @cached_property
    def version(self) -> str:
        """8 hex characters that are equal for equal policies; events name the one that judged."""
        return sha256(repr(self).encode("utf-8", "backslashreplace")).hexdigest()[:8]

    def tool(self, name: str, declared: ToolPolicy = PLAIN) -> ToolPolicy:
        """What is known of the tool *name*: the policy's entry laid over what was *declared* with it."""
        entry = self.tools.get(name)
        if entry is None:
            entry = next(
                (tool for pattern, tool in self.tools.items() if fnmatchcase(name, pattern)), None
            )
        return declared if entry is None else declared.under(entry)

    def lineup(self, tool: ToolPolicy) -> tuple[Any, ...]:
        """The rules that look at calls of *tool*, in order."""
        repeat = next((rule for rule in self.rules if rule.name == "repeat"), None)
        limit = tool.max_repeats
        if limit is None and repeat is not None:
            limit = getattr(repeat, "max_repeats", None)
        aside = REPEATS if tool.exempt else SUPERSEDED if limit is not None else frozenset()
        looking = (rule for rule in self.rules if rule.name not in aside)
        return tuple(each for rule in looking for each in (rule, *beside(rule, tool)))

    def replaced(self, *rules: Any, **settings: Any) -> Self:
        """This policy with *rules* in the places of their namesakes, or where the order of checks wants a
        new one, and *settings*."""
        lineup = list(self.rules)
        for rule in rules:
            at = next((i for i, old in enumerate(lineup) if old.name == rule.name), None)
            if at is None:
                inserted(rule, lineup)
            else:
                lineup[at] = rule
        kept = {name: getattr(self, name) for name in type(self).model_fields if name != "rules"}
        return type(self)(rules=lineup, **{**kept, **settings})

    @classmethod
    def strict(cls, **settings: Any) -> Self:
        """The on-call preset: 8 calls, 2 repeats, the first final status ends the turn."""
        base = cls(max_calls=8, max_repeats=2, max_refusals=1)
        return base.replaced(Terminal(closes="turn"), Near(in_a_row=2), Cycle(rounds=2)).replaced(
            **settings
        )

    @classmethod
    def dialogue(cls, **settings: Any) -> Self:
        """For agents that talk with people and call APIs: 25 calls a turn."""
        return cls(max_calls=25).replaced(**settings)

    @classmethod
    def coding(cls, **settings: Any) -> Self:
        """For coding agents: 200 calls a turn, and the usual shells marked as such."""
        return cls(tools=SHELLS).replaced(**settings)

    @classmethod
    def permissive(cls, **settings: Any) -> Self:
        """No rule but the count of calls: identity, events and reports go on, nothing is refused."""
        bare = cls(
            rules=(Ceiling(calls=None),), max_attempts=None, on_fault="open", on_store="open"
        )
        return bare.replaced(**settings)

    @classmethod
    def from_toml(cls, source: str | Path) -> Self:
        """The policy written in a TOML file (a Path) or in TOML text (a str).

        `preset` names where to begin (default `default`); a table `[rules.NAME]` adjusts or adds a
        rule, `NAME = false` in `[rules]` takes it away, `[tools."PATTERN"]` describes tools. Raises
        PolicyError, and OSError when the file cannot be read.
        """
        where = str(source) if isinstance(source, Path) else "policy"
        table = parsed(source.read_bytes() if isinstance(source, Path) else source, where)
        base = cls.preset(table.pop("preset", "default"), where)
        rules = lineup_of(table.pop("rules", {}), base.rules, where)
        kept = {name: getattr(base, name) for name in cls.model_fields if name != "rules"}
        try:
            return cls(rules=rules, **{**kept, **table})
        except PolicyError as error:
            raise PolicyError(f"{where}: {error}") from None

    @classmethod
    def preset(cls, name: str, where: str = "policy") -> Self:
        """The preset *name*: default, strict, dialogue, coding, permissive or empty."""
        presets: dict[str, Callable[[], Self]] = {
            "default": cls,
            "strict": cls.strict,
            "dialogue": cls.dialogue,
            "coding": cls.coding,
            "permissive": cls.permissive,
            "empty": lambda: cls(rules=()),
        }
        if not isinstance(name, str) or name not in presets:
            raise PolicyError(f"{where}: no preset {name!r}{nearest(str(name), presets)}")
        return presets[name]()

    def to_toml(self) -> str:
        """This policy as TOML that `from_toml` reads back as an equal one."""
        head = {
            "preset": "empty",
            "enforce": self.enforce,
            "max_attempts": self.max_attempts,
            "on_fault": self.on_fault,
            "on_store": self.on_store,
            "max_staleness": self.max_staleness,
            "on_unscoped": self.on_unscoped,
            "on_stop": self.on_stop,
            "terminal_statuses": self.terminal_statuses,
            "statuses": self.statuses,
        }
        rules = {f"rules.{rule.name}": rule.model_dump() for rule in self.rules}
        tools = {
            f"tools.{literal(name)}": tool.model_dump(include=tool.model_fields_set)
            for name, tool in self.tools.items()
        }
        prices = {
            f"prices.{literal(name)}": price.model_dump(exclude_none=True)
            for name, price in self.prices.items()
        }
        return written({"": head, **rules, **tools, **prices})


SHELLS = {
    name: ToolPolicy(shell=True)
    for name in (
        "bash", "shell", "sh", "terminal", "run", "exec", "execute", "execute_bash",
        "execute_command", "run_command", "run_shell_command", "python", "ipython", "execute_python",
        "run_ipython", "execute_ipython_cell", "run_python", "run_tests", "local_shell",
        "str_replace_editor",
    )
}  # fmt: skip


def beside(rule: Any, tool: ToolPolicy) -> tuple[Any, ...]:
    """The rules that come with *rule* for calls of *tool*."""
    return rule.beside(tool) if hasattr(rule, "beside") else ()


def adjusted(rules: tuple[Any, ...], short: Mapping[str, tuple[str, str, Any]]) -> tuple[Any, ...]:
    """*rules* with the settings of the short form: by key the rule, its field and the value, if any.
    Raises PolicyError."""
    lineup = list(rules)
    for key, (name, field, value) in short.items():
        if value is None:
            continue
        at = next((i for i, rule in enumerate(lineup) if getattr(rule, "name", None) == name), None)
        if at is None:
            raise PolicyError(f"{key} needs its rule, {name}, among rules=[...]")
        try:
            lineup[at] = type(lineup[at])(**{**lineup[at].model_dump(), field: value})
        except ValidationError as error:
            raise PolicyError(f"{key}: {error.errors()[0]['msg']}, not {value!r}") from None
    return tuple(lineup)
