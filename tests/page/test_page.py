"""The page in a real browser: what is seen first, what cannot get in, and that everybody can use it."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from lastcall.cli import main

# What is seen without scrolling, as text.
SEEN = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = [];
  while (walker.nextNode()) {
    const range = document.createRange();
    range.selectNodeContents(walker.currentNode);
    const box = range.getBoundingClientRect();
    const parent = walker.currentNode.parentElement;
    if (box.width && box.bottom <= innerHeight && box.right <= innerWidth && parent.checkVisibility())
      seen.push(walker.currentNode.textContent.trim());
  }
  return seen.join(" ").replace(/\\s+/g, " ");
})()"""

ROWS = "[...document.querySelectorAll('#rows tr')]"
CALLS = "[...document.querySelectorAll('#rows tr.call th')].map(each => Number(each.textContent.replace(/,/g, '')))"
COUNT = "document.querySelector('#count').textContent"


@pytest.fixture
def night(root):
    return root / "examples" / "night-422.jsonl"


@pytest.fixture
def log(tmp_path):
    def write(rows, name="run.jsonl"):
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return write


def call(n, **fields):
    return {
        "ts": n,
        "name": "search",
        "args": {"q": f"word {n}"},
        "status": 200,
        "result": f"hit {n}",
        **fields,
    }


def words(browser, text):
    """Write *text* into the search field, as a person does."""
    browser.run("document.querySelector('#words').focus()")
    browser.run("document.querySelector('#words').select()")
    browser.type(text)
    browser.settled()


def test_the_night_is_told_on_the_first_screen(page, night):
    browser = page(night)
    seen = browser.run(SEEN)
    for said in (
        "create_reminder was called 38 times.",
        "Call 5 would have been the last; 35 calls saved.",
        "5 different ones, which differ only in due , lines , customer and customer_id",
        "every one was answered 422",
        "Call 6 would have been refused because an answer before it was final",
        "88 %",
        "7 min 5 s",
        "30.02.2026",
    ):
        assert said in seen.replace("\xa0", " ")
    assert "buyer@example.com" not in browser.run("document.documentElement.outerHTML")


def test_it_needs_nothing_else_and_nothing_goes_wrong(page, night):
    browser = page(night)
    assert browser.faults() == []
    assert len(browser.requests()) == 1
    # Nothing that gets in may load or run anything.
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img src=x><p onclick=x>')")
    browser.run("""(() => { const one = document.createElement("script"); one.textContent = "window.in = 1";
        document.body.append(one); })()""")
    assert browser.run("'in' in window") is False
    assert any("Content Security Policy" in each for each in browser.faults())


HOSTILE = [
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "<!--<script>",
    "\u2028\u2029]]>",
    "`<b>`${window.pwned = 1}$title",
    "&lt;i&gt;&#x3c;i>",
    "\u202egnp.exe\x00\x1b[31m",
    '" onfocus=window.pwned=1 autofocus x="',
    "'--></style></textarea></noscript><svg/onload=window.pwned=1>",
    "__proto__",
]


def test_what_a_run_says_is_text_and_nothing_else(browser, log, tmp_path):
    folder = tmp_path / "<img src=x onerror=window.pwned=1>"
    folder.mkdir()
    rows = [
        {"ts": n, "name": each, "args": {each: each, "n": n}, "status": 500, "result": {each: [each]},
         "run": each, "agent": each, "turn": n // 3}
        for n, each in enumerate(HOSTILE * 4)
    ]  # fmt: skip
    file = folder / "a`b&c.jsonl"
    file.write_text(
        "".join(json.dumps(row) + "\n" for row in rows) + "</script>{\n", encoding="utf-8"
    )
    log([row | {"run": None} for row in rows], name="one.jsonl").replace(folder / "one.jsonl")
    output = tmp_path / "page.html"
    assert main(["report", str(folder), "-o", str(output), "--no-redact"]) == 2
    browser.view()
    browser.open(output)
    shapes = "document.querySelectorAll('img, i[class=\"\"], b:not(.policy b):not(.args b), iframe, [onclick], [onload], [onfocus]').length"
    for place in range(browser.run("document.querySelectorAll('section.run').length")):
        browser.run(f"location.hash = 'run-{place}'")
        browser.settled()
        browser.run("document.querySelectorAll('.fold button').forEach(each => each.click())")
        browser.run("document.querySelectorAll('.open').forEach(each => each.click())")
        assert browser.run("'pwned' in window") is False
        assert browser.run(shapes) == 0
    assert not [each for each in browser.faults() if "favicon" not in each]
    text = browser.run("document.body.textContent")
    assert "<img src=x onerror='window.pwned = 1'>" in text
    assert "\\u202egnp.exe\\u0000" in text
    assert "\u202e" not in text


def test_a_search_filters_and_says_how_many_are_left(page, log):
    browser = page(log([call(n, name="get" if n % 10 else "list") for n in range(150)]))
    assert browser.run(COUNT) == "150 calls"
    words(browser, "word 14")
    assert browser.run(CALLS) == [15, *range(141, 151)]
    assert browser.run(COUNT) == "11 of 150 calls"
    words(browser, "HIT 149")
    assert browser.run(CALLS) == [150]
    words(browser, "nothing is called so")
    assert browser.run(COUNT) == "0 of 150 calls"
    browser.key("Escape", 27)
    browser.settled()
    assert browser.run(COUNT) == "150 calls"
    browser.run("""(() => { const one = document.querySelector("#tool"); one.value = "0";
        one.dispatchEvent(new Event("input", { bubbles: true })); })()""")
    assert browser.run(COUNT) == "15 of 150 calls"
    assert browser.run("document.querySelector('#count').getAttribute('aria-live')") == "polite"


def test_the_calls_of_one_fingerprint_or_of_a_part(page, night):
    browser = page(night)
    browser.run("document.querySelector('.pick[data-letter=C]').click()")
    assert browser.run(CALLS) == [3, 8, 13, 18, 23, 28, 33, 38]
    assert browser.run(COUNT) == "8 of 40 calls, 7 of them would not have been made"
    assert browser.run("document.querySelectorAll('.pick[aria-pressed=true]').length") == 1
    browser.run("document.querySelector('.pick[data-letter=C]').click()")
    assert browser.run(COUNT) == "40 calls"
    browser.run("""(() => { const one = document.querySelector("#part"); one.value = "saved";
        one.dispatchEvent(new Event("input", { bubbles: true })); })()""")
    assert browser.run(CALLS) == list(range(6, 41))
    browser.run("document.querySelector('.filter button').click()")
    browser.settled()
    assert browser.run(COUNT) == "40 calls"


def test_what_goes_round_is_folded_and_can_be_opened(page, night):
    browser = page(night)
    assert browser.run(CALLS) == list(range(1, 11))
    assert "The same 5 calls, with the same answers, 6 more times: calls 11 to 40." in browser.run(
        f"{ROWS}.at(-1).textContent"
    )
    assert "would not have been made" in browser.run(f"{ROWS}[5].textContent")
    browser.run("document.querySelector('.fold button').click()")
    assert browser.run(CALLS) == list(range(1, 41))
    assert browser.run("document.activeElement.textContent") == "11"


def test_a_long_fold_is_opened_in_order(page, log):
    browser = page(log([call(0, args={}, result="x", ts=n) for n in range(450)] + [call(7)]),
                   more=["--policy", "permissive"])  # fmt: skip
    browser.run("document.querySelector('.fold button').click()")
    while browser.run("!document.querySelector('#more').hidden"):
        browser.run("document.querySelector('#more').click()")
    assert browser.run(CALLS) == list(range(1, 452))


def test_ten_thousand_calls_are_listed_a_piece_at_a_time(page, log):
    browser = page(log([call(n) for n in range(10_000)]), more=["--policy", "permissive"])
    assert browser.run(COUNT) == "10,000 calls"
    assert browser.run(f"{ROWS}.length") <= 300
    words(browser, "word 9999")
    assert browser.run(CALLS) == [10_000]
    words(browser, "")
    for _ in range(4):
        before = browser.run(f"{ROWS}.length")
        browser.run("scrollTo(0, document.body.scrollHeight)")
        browser.run(f"""new Promise(done => {{ const look = () => {ROWS}.length > {before} ? done() : setTimeout(look);
            look(); }})""")
    assert browser.run(f"{CALLS}.every((each, n) => each === n + 1)")


def test_it_is_used_by_keys_alone(page, night):
    browser = page(night)
    browser.key("/", 191, "/")
    assert browser.run("document.activeElement.id") == "words"
    for _ in range(30):
        browser.key("Tab", 9)
        if browser.run("document.activeElement.className") == "open":
            break
    assert browser.run("document.activeElement.getAttribute('aria-label')") == "Call 1, details"
    browser.key("ArrowDown", 40)
    browser.key("ArrowDown", 40)
    browser.key("Enter", 13, "\r")
    assert browser.run("document.activeElement.getAttribute('aria-expanded')") == "true"
    shown = browser.run("document.querySelector('tr.detail').textContent")
    assert "2026-02-30" in shown
    assert "Please try again" in shown
    browser.key("Enter", 13, "\r")
    assert browser.run("document.querySelector('tr.detail')") is None
    # Whatever has the focus shows it.
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_result_that_was_cut_says_so(page, log):
    browser = page(log([call(0, result="x" * 5000)]))
    browser.run("document.querySelector('.open').click()")
    assert "cut: the first 2,048 of 5,000 characters" in browser.run(
        "document.querySelector('tr.detail').textContent"
    )


def test_a_folder_is_a_list_of_runs(page, log, night, tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "night.jsonl").write_bytes(night.read_bytes())
    log([call(n) for n in range(5)]).replace(folder / "calm.jsonl")
    browser = page(folder)
    assert browser.run("document.querySelector('h1').textContent").startswith(
        "1 of 2 runs would have been stopped. 35 calls of 45 saved."
    )
    visible = "[...document.querySelectorAll('section.run')].filter(each => !each.hidden).map(each => each.id)"
    # The one in which there is most to see comes first.
    assert browser.run(visible) == ["run-1"]
    browser.run("document.querySelector('.runs a[href=\"#run-0\"]').click()")
    browser.settled()
    assert browser.run(visible) == ["run-0"]
    assert browser.run("document.activeElement.id") == "run-0"
    assert browser.run(COUNT) == "5 calls"
    assert browser.run("document.querySelector('[aria-current]').dataset.run") == "0"


def test_without_scripts_the_story_is_there(browser, page, night):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page(night)
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
        assert "35 calls saved" in browser.run(SEEN)
        assert browser.run("document.querySelectorAll('.lanes svg').length") == 7
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


def test_on_paper_there_are_no_fields(page, night, tmp_path):
    browser = page(night)
    assert browser.pdf(tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.run("document.querySelector('.filter').checkVisibility()") is False
    assert browser.run("document.querySelector('.list').checkVisibility()") is True
    browser.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("width", [400, 320])
def test_on_a_telephone_nothing_sticks_out(page, night, width):
    browser = page(night, width=width, height=800)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("document.querySelectorAll('.open').forEach(each => each.click())")
    assert browser.run("document.documentElement.scrollWidth") <= width


def axe():
    spec = find_spec("axe_core_python")
    if spec is None or not spec.submodule_search_locations:
        if os.environ.get("LASTCALL_BROWSER") == "required":
            pytest.fail("no axe-core here: pip install axe-core-python")
        pytest.skip("no axe-core: pip install axe-core-python")
    return (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text("utf-8")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("several", [False, True])
def test_no_barrier_is_found(page, log, night, tmp_path, dark, width, several):
    source = axe()
    files = [night, log([call(n) for n in range(30)])] if several else [night]
    browser = page(*files, dark=dark, width=width)
    browser.run("document.querySelectorAll('.open')[3].click()")
    browser.run("document.querySelector('.pick').click(); document.querySelector('.pick').click()")
    browser.run("document.querySelectorAll('.open')[3].click()")
    browser.run(source + "; 0")
    found = browser.run(
        """axe.run().then(done => ({ passes: done.passes.length,
        violations: done.violations.map(each => [each.id, each.nodes.map(node => node.html)]) }))"""
    )
    assert found["violations"] == []
    assert found["passes"] > 20
