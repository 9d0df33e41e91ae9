"""The page as one HTML file that needs nothing else: no network, no server, no other file.

What comes from outside gets into it in two ways: escaped, as text between tags, and as JSON in a data block,
which the script reads and shows as text. A policy in its head lets only the page's own style and script in.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from importlib.resources import files
from json import dumps
from string import Template
from typing import Any

from lastcall.page.as_json import sentence
from lastcall.page.findings import counted, story
from lastcall.page.labels import KINDS, about, answers, figures, label, path, span, under, unnamed
from lastcall.page.model import FAILED, Lane, Page, RunPage
from lastcall.visible import cut

__all__ = ["embedded", "html"]

TALL, LOW = 20, 9
"""The height of the bar of a call that failed, and of one that went well."""


def html(page: Page) -> str:
    """*page* as one HTML document."""
    style = _own("page.css") + "".join(_places(page))
    script = _own("page.js")
    several = len(page.runs) > 1
    runs = "".join(_run(run, number, several=several) for number, run in enumerate(page.runs))
    # Of several runs the overview says it.
    runs += "" if several else _unread(page)
    return Template(_own("page.html")).substitute(
        title=escape(_title(page)),
        csp=f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " base-uri 'none'; form-action 'none'",
        style=style,
        script=script,
        policy=escape(page.policy),
        redacted="secrets redacted" if page.redacted else "secrets not redacted",
        overview=_overview(page) if several else "",
        runs=runs,
        data="".join(
            f'<script type="application/json" id="data-{number}">{embedded(_data(run))}</script>\n'
            for number, run in enumerate(page.runs)
        ),
    )


def embedded(value: Any) -> str:
    """*value* as JSON that may stand in a script element: ASCII alone, and nothing that ends the element or
    begins a comment (HTML, section 4.12.1.3)."""
    text = dumps(value, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _own(name: str) -> str:
    return files("lastcall.page").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()


def _title(page: Page) -> str:
    if len(page.runs) == 1:
        return f"{sentence(page.runs[0]).replace('`', '')} - {page.runs[0].name}"
    runs, saved = counted(len(page.runs), "run"), counted(page.saved, "call")
    return f"{runs}, {page.stopped:,} stopped, {saved} saved"


def _places(page: Page) -> Iterator[str]:
    """Rules of style for what depends on numbers; styles at the elements themselves are not let in."""
    for number, run in enumerate(page.runs):
        if run.stop is not None and run.saved.calls:
            at = 100 * run.executed / run.calls
            side = f"right:{100 - at:.2f}%" if at > 50 else f"left:{at:.2f}%"  # noqa: PLR2004 - half
            yield f"\n#mark-{number}{{{side}}}"


def marked(text: str) -> str:
    """Text with `code` in backticks as HTML."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))


def _lines(text: str) -> str:
    """Sentences, each on a line of its own; a number stays with its word."""
    parts = text.replace("Call ", "Call\u00a0").split(". ")
    return "".join(
        f"<span>{marked(part)}{'' if n == len(parts) else '.'} </span>"
        for n, part in enumerate(parts, 1)
    )


def _overview(page: Page) -> str:
    """What all runs come to, and a table of them."""
    rows: list[str] = []
    order = sorted(enumerate(page.runs), key=lambda each: (-each[1].saved.calls, each[0]))
    for number, run in order:
        stop = run.stop
        why = (
            ""
            if stop is None
            else f"{stop.reason}{'' if stop.status is None else f', {stop.status}'}"
        )
        share = f"{run.share} %" if run.saved.calls else ""
        rows.append(
            f'<tr data-run="{number}"><th scope="row"><a href="#run-{number}">{escape(run.name)}</a></th>'
            f'<td class="n">{run.calls:,}</td><td class="n">{f"{run.executed:,}" if stop else ""}</td>'
            f'<td class="n saved">{f"{run.saved.calls:,}" if run.saved.calls else ""}</td>'
            f'<td class="n">{share}</td><td>{escape(why)}</td>'
            f"<td>{f'<code>{escape(stop.tool)}</code>' if stop else 'nothing to stop'}</td></tr>"
        )
    head = (
        f"{page.stopped:,} of {counted(len(page.runs), 'run')} would have been stopped."
        f" {counted(page.saved, 'call')} of {page.calls:,} saved."
    )
    return (
        f'<section class="overview" aria-labelledby="all"><h1 id="all">{head}</h1>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Runs"><table class="runs">'
        "<caption>Runs, those with most calls saved first</caption><thead><tr>"
        '<th scope="col">run</th><th scope="col" class="n">calls</th><th scope="col" class="n">last call</th>'
        '<th scope="col" class="n">saved</th><th scope="col" class="n">share</th><th scope="col">why</th>'
        f'<th scope="col">tool</th></tr></thead><tbody>{"".join(rows)}</tbody></table></div>{_unread(page)}</section>'
    )


def _unread(page: Page) -> str:
    """What could not be read."""
    problems = "".join(f"<li>{escape(cut(each, 300))}</li>" for each in page.unreadable)
    told = '<p class="notes" id="unread">Not read:</p><ul class="notes" aria-labelledby="unread">'
    return f"{told}{problems}</ul>" if problems else ""


def _run(run: RunPage, number: int, *, several: bool) -> str:
    """The part of a run that is there before any script runs."""
    level = 2 if several else 1
    facts = [escape(run.name), escape(run.format), counted(run.calls, "call")]
    if run.turns > 1:
        facts.append(counted(run.turns, "turn"))
    if run.seconds:
        facts.append(span(run.seconds))
    numbers = "".join(
        f'<div class="{what.split(" ")[-1]}"><dt>{what}</dt><dd>{escape(value)}'
        f"{f' <small>{escape(more)}</small>' if more else ''}</dd></div>"
        for what, value, more in figures(run)
    )
    said = story(run.finding, run.stop, run.calls, untold=run.untold)
    return (
        f'<section class="run" id="run-{number}" aria-labelledby="head-{number}" tabindex="-1">'
        f'<p class="facts">{" <span aria-hidden=true>·</span> ".join(facts)}</p>'
        f'<h{level} class="headline" id="head-{number}">{_lines(sentence(run))}</h{level}>'
        + (f'<p class="story">{marked(said)}</p>' if said else "")
        + f'<dl class="figures">{numbers}</dl>'
        + (_lanes(run, number) if run.calls else "")
        + _notes(run)
        + "</section>"
    )


def _notes(run: RunPage) -> str:
    notes: list[str] = []
    if run.not_judged:
        why = f" The transcript has no {', no '.join(run.lacks)}." if run.lacks else ""
        notes.append(f"Not judged: {', '.join(run.not_judged)}.{why}")
    if len(run.lines) < run.calls:
        last = run.first + len(run.lines) - 1
        notes.append(
            f"Below are calls {run.first:,} to {last:,} of {run.calls:,}; all are counted above."
        )
    return "".join(f'<p class="notes">{escape(note)}</p>' for note in notes)


def _lanes(run: RunPage, number: int) -> str:
    """The calls over time, a row for each fingerprint."""
    mark = ""
    if run.stop is not None and run.saved.calls:
        mark = (
            f'<span class="mark" id="mark-{number}">{counted(run.saved.calls, "call")} saved</span>'
        )
    rows = "".join(_lane(run, lane, place) for place, lane in enumerate(run.lanes))
    return (
        '<div class="scroll"><table class="lanes"><caption>Calls in their order, equal calls in one row.'
        ' <span class="legend"><i class="tall"></i> failed <i class="low"></i> went well'
        + (' <i class="dim"></i> would not have been made' if mark else "")
        + '</span></caption><thead><tr><th scope="col">call</th>'
        f'<th scope="col" class="time"><span class="axis"><span>1</span>{mark}<span>{run.calls:,}</span></span></th>'
        '<th scope="col" class="n">times</th><th scope="col">answer</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _lane(run: RunPage, lane: Lane, place: int) -> str:
    at = under(run)
    after = (
        f'<rect class="after" x="{at:g}" width="{run.bars - at:g}" height="24"/>'
        f'<path class="cut" d="M{at:g} 0V24"/>'
        if run.stop is not None and run.saved.calls
        else ""
    )
    drawn = "".join(
        f'<path class="bar" d="{path(lane, kind, run, TALL if kind == FAILED else LOW, 22)}"/>'
        for kind in KINDS
    )
    words = escape(label(lane, run))
    own = lane.letter or "-"
    called = (
        f'<code>{escape(lane.tool)}</code> <span class="args">{words}</span>'
        if lane.letter
        else f"<span>{unnamed(run)}</span>"
    )
    return (
        f'<tr class="l{own}"><th scope="row"><button type="button" class="pick" aria-pressed="false"'
        f' data-lane="{place if lane.letter else -1}" data-letter="{own}"><span class="key" aria-hidden="true">'
        f'{lane.letter or "·"}</span><span class="what">{called}</span></button></th>'
        f'<td class="time"><svg viewBox="0 0 {run.bars} 24" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(about(lane))}">{after}{drawn}</svg></td>'
        f'<td class="n">{lane.calls:,}</td><td class="answer" title="{escape(answers(lane))}">{escape(answers(lane))}</td></tr>'
    )


def _data(run: RunPage) -> dict[str, Any]:
    """What the script shows of a run."""
    stop = run.stop
    return {
        "first": run.first,
        "total": run.calls,
        "executed": run.executed if stop is not None else run.calls,
        "saved": run.saved.calls,
        "stop": None if stop is None else {"reason": stop.reason, "call": stop.index + 1, "refused": stop.refused},
        "letters": [lane.letter for lane in run.lanes if lane.letter],
        "tools": run.tools,
        "args": [(each.text, each.length) for each in run.arguments],
        "results": [(each.text, each.length) for each in run.results],
        "answers": run.answers,
        "fingerprints": [lane.fingerprint for lane in run.lanes if lane.letter],
        "lines": [
            (e.lane, e.tool, e.arguments, -1 if e.result is None else e.result, e.answer, int(e.failed),
             e.turn, e.seconds, e.stop)
            for e in run.lines
        ],
        "folds": [(fold.start, fold.period, fold.times) for fold in run.folds],
        "turns": run.turns,
    }  # fmt: skip
