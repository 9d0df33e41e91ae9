"""A policy as TOML, in and out, with errors that name the key and the nearest valid one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import orjson
from pydantic import ValidationError

from lastcall.order import inserted
from lastcall.tool import ToolPolicy


class PolicyError(ValueError):
    """A policy that cannot be: the message names the key, what is wrong, and the nearest valid one."""


def parsed(source: str | bytes, where: str) -> dict[str, Any]:
    """The table of a TOML text or file; *where* names it in errors. Raises PolicyError."""
    # A policy made in code needs no parser.
    import tomllib  # noqa: PLC0415

    try:
        # Editors on Windows begin a file with a mark that TOML does not know.
        return tomllib.loads(source if isinstance(source, str) else source.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"{where}: not TOML: {error}") from None


def lineup_of(named: Any, base: Iterable[Any], where: str) -> list[Any]:
    """*base* as the table `[rules]` changes it: a table adjusts a rule or adds it, false takes it away. A
    new one goes where the order of checks wants it; without a base the file's order holds. Raises
    PolicyError."""
    if not isinstance(named, Mapping):
        raise PolicyError(f"{where}: rules must be a table of tables, like [rules.cycle]")
    lineup = list(base)
    ordered = bool(lineup)
    for name, settings in named.items():
        at = next((i for i, rule in enumerate(lineup) if rule.name == name), None)
        if settings is False:
            if at is None:
                rule_class(name, where)
            else:
                del lineup[at]
        elif not isinstance(settings, Mapping):
            raise PolicyError(f"{where}: rules.{name} must be a table, or false to leave it out")
        elif at is not None:
            lineup[at] = built(name, settings, lineup[at], where)
        elif ordered:
            inserted(built(name, settings, None, where), lineup)
        else:
            lineup.append(built(name, settings, None, where))
    return lineup


def built(name: str, settings: Mapping[str, Any], base: Any, where: str) -> Any:
    """The rule *name* with *settings*, over those of *base* when there is one. Raises PolicyError."""
    made = rule_class(name, where) if base is None else type(base)
    start = {} if base is None else base.model_dump()
    try:
        return made(**{**start, **settings})
    except ValidationError as error:
        text = explained(error, (*made.model_fields, *getattr(made, "keys", ())))
        raise PolicyError(f"{where}: rules.{name}: {text}") from None


def rule_class(name: str, where: str) -> type[Any]:
    """The class of the rule *name*, ours or somebody else's. Raises PolicyError."""
    known = installed()
    if name not in known:
        raise PolicyError(
            f"{where}: no rule named {name!r}{nearest(name, known)};"
            f" installed: {', '.join(sorted(known))}"
        )
    found: type[Any] = known[name].load()
    return found


@cache
def installed() -> dict[str, EntryPoint]:
    """The rules that are installed, by name; ours register like anyone else's."""
    return {point.name: point for point in entry_points(group="lastcall.rules")}


def explained(error: ValidationError, keys: Iterable[str]) -> str:
    """A validation error as one line; *keys* are valid ones besides those of the model."""
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        return f"{path}: {first['msg']}, not {first['input']!r}"
    if first["loc"][0] == "tools":
        keys = ToolPolicy.model_fields
    return f"no key {path!r}{nearest(path.rpartition('.')[2], keys)}"


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at the name that was probably meant."""
    # Only the text of an error needs it.
    from difflib import get_close_matches  # noqa: PLC0415

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def written(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """*tables* as TOML, by their headings."""
    lines: list[str] = []
    for heading, fields in tables.items():
        if heading:
            lines += ["", f"[{heading}]"]
        lines += [f"{key} = {literal(value)}" for key, value in fields.items()]
    return "\n".join(lines) + "\n"


def literal(value: Any) -> str:
    """A TOML literal; None is `false`, which takes a limit away."""
    if value is None or isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = (f"{literal(str(key))} = {literal(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(item) for item in value)}]"
    if isinstance(value, Decimal):
        return f'"{value}"'
    if isinstance(value, str):
        # TOML's basic strings are JSON's, but for DEL, which TOML wants escaped.
        return orjson.dumps(value).decode().replace("\x7f", "\\u007f")
    return str(value)
