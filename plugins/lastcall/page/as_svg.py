"""The page as a picture: the lanes of every run, with the stop, for a chat or a ticket."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

from lastcall.page.as_json import sentence
from lastcall.page.findings import counted
from lastcall.page.labels import KINDS, about, answers, label, path, under, unnamed
from lastcall.page.model import FAILED, Page, RunPage
from lastcall.visible import cut

__all__ = ["svg"]

WIDTH, MARGIN, ROW, LABEL, ENDS = 1120, 32, 26, 430, 120
"""Pixels: of the picture, around it, of a lane, and of what is written left and right of it."""

LETTERS, SMALL = 62, 54
"""Characters that fit into a line of the headline, and of a label."""


def svg(page: Page) -> str:
    """*page* as one SVG image; of several runs those that would have been stopped, where there are any."""
    runs = tuple(run for run in page.runs if run.stop is not None) or page.runs
    parts: list[str] = []
    top = MARGIN
    for run in runs:
        top, drawn = _run(run, top)
        parts += drawn
    style = files("lastcall.page").joinpath("picture.css").read_text("utf-8")
    said = escape("; ".join(sentence(run).replace("`", "") for run in runs[:20]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}"'
        f' height="{top}" role="img" aria-label="{said}">'
        f"<title>{said}</title><style>{style}</style>"
        f'<rect class="paper" width="{WIDTH}" height="{top}"/>{"".join(parts)}</svg>\n'
    )


def _run(run: RunPage, top: float) -> tuple[int, list[str]]:
    """One run, drawn from *top* on; gives where it ends."""
    parts = [_text("file", MARGIN, top + 12, f"{run.name} · {run.format}")]
    top += 44
    for line in wrapped(sentence(run).replace("`", ""), LETTERS):
        parts.append(_text("head", MARGIN, top, line))
        top += 34
    left, width = MARGIN + LABEL, WIDTH - 2 * MARGIN - LABEL - ENDS
    scale, height = width / run.bars, ROW * len(run.lanes)
    at = left + under(run) * scale
    top += 14
    if run.stop is not None and run.saved.calls:
        edge, anchor = (at - 6, "end") if at > left + width / 2 else (at + 6, "start")
        parts += (
            _box("after", at, top, left + width - at, height),
            _text("mark", edge, top - 8, f"{counted(run.saved.calls, 'call')} saved", anchor),
        )
    for number, lane in enumerate(run.lanes):
        base = top + number * ROW
        letter = lane.letter or "·"
        what = f"{lane.tool}  {label(lane, run)}" if lane.letter else unnamed(run)
        parts += (
            f'<g class="lane l{letter if lane.letter else "-"}"><title>{escape(about(lane))}</title>',
            f'<path class="rule" d="M{MARGIN} {base + ROW:.0f}H{WIDTH - MARGIN}"/>',
            _box("key", MARGIN, base + 4, 18, 18),
            _text("letter", MARGIN + 9, base + 17, letter, "middle"),
            _text("label", MARGIN + 28, base + 17, cut(what, SMALL)),
            *(
                f'<path class="bar" transform="translate({left} {base + ROW - 5:.0f}) scale({scale:.4f} 1)"'
                f' d="{path(lane, kind, run, 16 if kind == FAILED else 8, 0)}"/>'
                for kind in KINDS
            ),
            _text("count", left + width + 46, base + 17, f"{lane.calls:,}", "end"),
            _text("answer", left + width + 56, base + 17, cut(answers(lane), 10)),
            "</g>",
        )
    if run.stop is not None and run.saved.calls:
        parts.append(f'<path class="cut" d="M{at:.1f} {top - 22:.0f}V{top + height:.0f}"/>')
    return int(top + height + MARGIN), parts


def _box(kind: str, x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.0f}"'
        + (' rx="4"/>' if kind == "key" else "/>")
    )


def _text(kind: str, x: float, y: float, text: str, anchor: str = "start") -> str:
    where = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'


def wrapped(text: str, most: int) -> Iterator[str]:
    """*text* in lines of about *most* characters."""
    line = ""
    for word in text.split():
        if line and len(line) + len(word) >= most:
            yield cut(line, most + 20)
            line = ""
        line = f"{line} {word}".strip()
    yield cut(line, most + 20)
