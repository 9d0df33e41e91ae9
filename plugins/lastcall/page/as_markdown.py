"""The page as Markdown, for an issue or a chat."""

from __future__ import annotations

from collections.abc import Iterator

from lastcall.page.as_json import sentence
from lastcall.page.findings import counted, story
from lastcall.page.labels import answers, figures, label, unnamed
from lastcall.page.model import Page, RunPage
from lastcall.visible import cut

__all__ = ["markdown"]


def markdown(page: Page) -> str:
    """*page* as Markdown."""
    lines: list[str] = []
    if len(page.runs) > 1:
        stopped, saved = f"{page.stopped:,} would have been stopped", counted(page.saved, "call")
        lines += [
            f"# {counted(len(page.runs), 'run')}: {stopped}, {saved} saved",
            "",
            "| run | calls | last call | saved | why |",
            "| --- | ---: | ---: | ---: | --- |",
        ]
        for run in page.runs:
            last, why = ("", "") if run.stop is None else (f"{run.executed:,}", run.stop.reason)
            lines.append(
                f"| {code(run.name)} | {run.calls:,} | {last} | {run.saved.calls or ''} | {why} |"
            )
        lines.append("")
    for run in page.runs:
        if len(page.runs) == 1 or run.stop is not None:
            lines += _run(run, "#" * (1 if len(page.runs) == 1 else 2))
    lines += (f"Not read: {code(problem)}" for problem in page.unreadable)
    return "\n".join(lines).rstrip() + "\n"


def _run(run: RunPage, mark: str) -> Iterator[str]:
    yield f"{mark} {sentence(run)}"
    yield ""
    said = story(run.finding, run.stop, run.calls, untold=run.untold)
    if said:
        yield said
        yield ""
    told = (
        f"{what} **{number}**" + (f" ({more})" if more else "")
        for what, number, more in figures(run)
    )
    yield f"{code(run.name)}, {run.format}: " + "; ".join(told) + "."
    if run.not_judged:
        why = f" (no {', no '.join(run.lacks)})" if run.lacks else ""
        yield f"Not judged: {', '.join(run.not_judged)}{why}."
    if run.lanes:
        yield ""
        yield "| | call | calls | first | last | answers |"
        yield "| --- | --- | ---: | ---: | ---: | --- |"
        for lane in run.lanes:
            what = code(f"{lane.tool} {label(lane, run)}".strip()) if lane.letter else unnamed(run)
            yield (
                f"| {lane.letter} | {what} | {lane.calls:,} | {lane.first:,} | {lane.last:,} |"
                f" {answers(lane)} |"
            )
    yield ""


def code(text: str) -> str:
    """*text* as code in a cell of a table, whatever is in it."""
    text = cut(text, 200).replace("`", "'").replace("|", "\\|").replace("\n", " ")
    return f"`{text}`"
