"use strict";
// Lists the calls of one run, a chunk at a time, and filters them. Whatever comes from the run is set as text.
(() => {
  const CHUNK = 60;
  const [LANE, TOOL, ARGS, RESULT, ANSWER, FAILED, TURN, SECONDS, STOP] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const byId = (id) => document.getElementById(id);
  const sections = [...document.querySelectorAll("section.run")];
  const form = document.querySelector(".filter");
  const [words, tool, answer, part] = ["words", "tool", "answer", "part"].map(byId);
  const [rows, count, more] = ["rows", "count", "more"].map(byId);
  let run = null; // The data of the shown run.
  let lane = null; // The number of the lane that is picked, -1 for the others.
  let items = []; // What is to be listed: numbers of calls, folds, and the stop.
  let shown = 0; // How many of them are.

  const make = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const number = (value) => value.toLocaleString("en-US");
  const calls = (n) => `${number(n)} call${n === 1 ? "" : "s"}`;
  const span = (seconds) => {
    if (seconds === null) return "";
    if (seconds < 60) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) return `${minutes}:${String(Math.floor(seconds % 60)).padStart(2, "0")} min`;
    return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h`;
  };
  const parsed = (text) => {
    try {
      const value = JSON.parse(text);
      return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
    } catch {
      return null;
    }
  };
  // JSON hides characters in escapes, which reading it undoes; as visible.py has it.
  const HIDDEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\uffff]/gu;
  const visible = (text) =>
    text.replace(HIDDEN, (found) => `\\u${found.codePointAt(0).toString(16).padStart(4, "0")}`);
  const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));

  // --- what is listed ---------------------------------------------------------------------------

  const after = (at) => run.first + at > run.executed;

  const searched = (at) => {
    // Each text is made lower case once: a search goes over texts, not over calls.
    const line = run.lines[at];
    const has = (kind, place) => {
      if (place < 0) return false;
      const known = run.found[kind];
      if (known[place] === undefined) known[place] = run.low[kind][place].includes(run.needle);
      return known[place];
    };
    return (
      has("tools", line[TOOL]) ||
      has("args", line[ARGS]) ||
      has("results", line[RESULT]) ||
      has("answers", line[ANSWER]) ||
      (line[LANE] >= 0 && run.fingerprints[line[LANE]].includes(run.needle)) ||
      String(run.first + at) === run.needle
    );
  };

  const prepare = () => {
    if (run.low) return;
    const low = (texts) => texts.map((each) => (Array.isArray(each) ? each[0] : each).toLowerCase());
    run.low = { tools: low(run.tools), args: low(run.args), results: low(run.results), answers: low(run.answers) };
  };

  const matches = () => {
    const needle = words.value.trim().toLowerCase();
    const wanted = { tool: tool.value, answer: answer.value, part: part.value };
    if (!needle && !wanted.tool && !wanted.answer && !wanted.part && lane === null) return null;
    if (needle) prepare();
    run.needle = needle;
    run.found = { tools: [], args: [], results: [], answers: [] };
    const [oneTool, oneAnswer] = [Number(wanted.tool), Number(wanted.answer)];
    const kept = [];
    for (let at = 0; at < run.lines.length; at += 1) {
      const line = run.lines[at];
      if (lane !== null && line[LANE] !== lane) continue;
      if (wanted.tool && line[TOOL] !== oneTool) continue;
      if (wanted.answer === "failed" ? !line[FAILED] : wanted.answer && line[ANSWER] !== oneAnswer) continue;
      if (wanted.part && (wanted.part === "saved") !== after(at)) continue;
      if (needle && !searched(at)) continue;
      kept.push(at);
    }
    return kept;
  };

  const folded = () => {
    // All calls; of what repeats, the first round and a word about the others.
    const made = [];
    let at = 0;
    for (const [start, period, times] of run.folds) {
      while (at < start + period) made.push(at++);
      made.push({ start: start + period, end: start + period * times, period, times: times - 1 });
      at = start + period * times;
    }
    while (at < run.lines.length) made.push(at++);
    return made;
  };

  const list = () => {
    const kept = matches();
    const all = kept ?? folded();
    items = [];
    run.filtered = kept !== null;
    let ended = run.stop === null || !run.saved;
    for (const each of all) {
      if (!ended && after(typeof each === "number" ? each : each.start)) {
        items.push("end");
        ended = true;
      }
      items.push(each);
    }
    shown = 0;
    rows.replaceChildren();
    grow();
    const total = run.lines.length;
    const saved = kept === null ? 0 : kept.filter(after).length;
    count.textContent =
      kept === null
        ? `${calls(total)}${total < run.total ? ` of ${number(run.total)}` : ""}`
        : `${number(kept.length)} of ${calls(total)}${run.saved ? `, ${number(saved)} of them would not have been made` : ""}`;
    for (const each of document.querySelectorAll(".pick")) {
      const on = each.closest("section") === run.section && Number(each.dataset.lane) === lane;
      each.setAttribute("aria-pressed", String(on));
    }
  };

  const grow = (by = CHUNK) => {
    const end = Math.min(items.length, shown + by);
    const made = document.createDocumentFragment();
    for (; shown < end; shown += 1) made.append(row(items[shown]));
    rows.append(made);
    more.hidden = shown >= items.length;
    more.textContent = `Show more (${number(items.length - shown)} left)`;
  };

  // --- rows -------------------------------------------------------------------------------------

  const row = (item) => (item === "end" ? endRow() : typeof item === "number" ? callRow(item) : foldRow(item));

  const wide = (className) => {
    const made = make("tr", className);
    const cell = made.appendChild(make("td"));
    cell.colSpan = 4;
    return [made, cell];
  };

  const endRow = () => {
    const [made, cell] = wide("end");
    cell.textContent = `Here the guard ends it (${run.stop.reason}). ${run.filtered ? "What is" : `The ${calls(run.saved)}`} below would not have been made.`;
    return made;
  };

  const foldRow = (fold) => {
    const [made, cell] = wide("fold");
    const [from, to] = [run.first + fold.start, run.first + fold.end - 1];
    const what = fold.period === 1 ? "The same call" : `The same ${fold.period} calls`;
    cell.append(`${what}, with the same answers, ${number(fold.times)} more times: calls ${number(from)} to ${number(to)}.`);
    const button = cell.appendChild(make("button", "", "Show them"));
    button.type = "button";
    button.addEventListener("click", () => {
      const numbers = Array.from({ length: fold.end - fold.start }, (_, n) => fold.start + n);
      const place = items.indexOf(fold);
      items.splice(place, 1, ...numbers);
      let next = made.nextSibling;
      const first = numbers.splice(0, CHUNK);
      const fragment = document.createDocumentFragment();
      for (const each of first) fragment.append(callRow(each));
      const focus = fragment.querySelector("button");
      made.replaceWith(fragment);
      focus.focus();
      if (numbers.length) {
        // What follows comes again, chunk by chunk, behind these.
        while (next) {
          const gone = next;
          next = next.nextSibling;
          gone.remove();
        }
        shown = place + first.length;
        grow(0);
      } else shown += first.length - 1;
    });
    return made;
  };

  const told = (at) => {
    // Arguments; what the tool was not called with the time before is marked.
    const line = run.lines[at];
    const text = run.args[line[ARGS]][0];
    const made = make("span", "args");
    const value = parsed(text);
    if (value === null) {
      made.textContent = text === "{}" ? "" : text;
      return made;
    }
    const before = run.before[at] < 0 ? null : parsed(run.args[run.lines[run.before[at]][ARGS]][0]);
    for (const [name, held] of Object.entries(value)) {
      const said = plain(held);
      const changed = before !== null && (!(name in before) || plain(before[name]) !== said);
      const shownAs = visible(`${name}: ${said.length > 120 ? `${said.slice(0, 119)}…` : said}`);
      if (made.childNodes.length) made.append("  ");
      made.append(changed ? make("b", "", shownAs) : shownAs);
    }
    return made;
  };

  const callRow = (at) => {
    const line = run.lines[at];
    const made = make("tr", after(at) ? "call after" : "call");
    const letter = line[LANE] < 0 ? "" : run.letters[line[LANE]];
    made.classList.add(`l${letter || "-"}`);
    const place = made.appendChild(make("th", "n"));
    place.scope = "row";
    const button = place.appendChild(make("button", "open", number(run.first + at)));
    button.type = "button";
    button.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-label", `Call ${run.first + at}, details`);
    const what = made.appendChild(make("td", "says"));
    const key = what.appendChild(make("span", "key", letter || "·"));
    key.title = letter ? `fingerprint ${run.fingerprints[line[LANE]]}` : "a call without a row of its own above";
    what.append(make("code", "", run.tools[line[TOOL]]), told(at));
    const brought = made.appendChild(make("td", "", ""));
    brought.append(make("span", line[FAILED] ? "bad" : "", run.answers[line[ANSWER]]));
    // Of what would have followed the stop, the details tell.
    if (line[STOP] && run.first + at <= run.executed + 1) brought.append(make("span", "stops", line[STOP]));
    made.append(make("td", "n when", span(line[SECONDS])));
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) made.nextSibling.remove();
      else made.after(detail(at));
    });
    return made;
  };

  const pretty = ([text, length]) => {
    let said = text;
    try {
      const value = JSON.parse(text);
      if (typeof value === "object") said = visible(JSON.stringify(value, null, 2));
    } catch {
      // It is no JSON, or cut off: shown as it is.
    }
    return length === null ? said : `${said}\n… cut: the first ${number(text.length)} of ${number(length)} characters`;
  };

  const detail = (at) => {
    const line = run.lines[at];
    const [made, cell] = wide("detail");
    const facts = cell.appendChild(make("dl"));
    const say = (name, node) => {
      facts.append(make("dt", "", name));
      facts.appendChild(make("dd")).append(node);
    };
    const block = (text) => {
      const found = make("pre", "", text);
      found.tabIndex = 0;
      return found;
    };
    say("arguments", block(pretty(run.args[line[ARGS]])));
    say("answer", run.answers[line[ANSWER]] + (line[STOP] ? `; a stop by ${line[STOP]}` : ""));
    say("result", line[RESULT] < 0 ? "not told" : block(pretty(run.results[line[RESULT]])));
    if (line[LANE] >= 0) say("fingerprint", make("code", "", run.fingerprints[line[LANE]]));
    if (run.turns > 1) say("turn", String(line[TURN]));
    return made;
  };

  // --- one run or another -----------------------------------------------------------------------

  const show = (place) => {
    const section = sections[place];
    for (const each of sections) each.hidden = each !== section;
    for (const each of document.querySelectorAll(".runs tr[data-run]")) {
      if (Number(each.dataset.run) === place) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
    run = JSON.parse(byId(`data-${place}`).textContent);
    run.section = section;
    const last = new Map();
    run.before = run.lines.map((line, at) => {
      const found = last.get(line[TOOL]) ?? -1;
      last.set(line[TOOL], at);
      return found;
    });
    const options = (select, texts) => {
      while (select.options.length > 1) select.remove(1);
      texts.forEach((text, n) => {
        const one = make("option", "", text.length > 60 ? `${text.slice(0, 59)}…` : text);
        one.value = String(n);
        select.append(one);
      });
    };
    options(tool, run.tools);
    options(answer, run.answers);
    if (run.lines.some((line) => line[FAILED])) {
      const one = make("option", "", "all that failed");
      one.value = "failed";
      answer.add(one, 1);
    }
    part.parentElement.hidden = !run.saved;
    lane = null;
    form.reset();
    byId("calls").hidden = run.lines.length === 0;
    list();
    // Before anybody can have typed a word.
    setTimeout(prepare, 200);
  };

  const placed = () => {
    const found = /^#run-(\d+)$/.exec(location.hash);
    return found && sections[Number(found[1])] ? Number(found[1]) : null;
  };
  const worst = document.querySelector(".runs tr[data-run]");

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", list);
  form.addEventListener("reset", () => {
    lane = null;
    // The fields are empty only after this event.
    setTimeout(list);
  });
  more.addEventListener("click", () => {
    const before = rows.children.length;
    grow();
    rows.children[before]?.querySelector("button")?.focus();
  });
  new IntersectionObserver((entries) => {
    if (run && entries.some((each) => each.isIntersecting) && shown < items.length) grow();
  }, { rootMargin: "600px" }).observe(more.parentElement);
  document.addEventListener("click", (event) => {
    const pick = event.target.closest?.(".pick");
    if (!pick) return;
    const picked = Number(pick.dataset.lane);
    lane = lane === picked ? null : picked;
    list();
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, select, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      words.focus();
    } else if (event.key === "Escape" && event.target === words) {
      form.reset();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.classList?.contains("open")) {
      const all = [...rows.querySelectorAll("button")];
      const next = all[all.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
      if (next) {
        event.preventDefault();
        next.focus();
      }
    }
  });
  addEventListener("hashchange", () => {
    const place = placed();
    if (place === null) return;
    show(place);
    sections[place].focus({ preventScroll: true });
  });
  addEventListener("beforeprint", () => grow(1000));
  if (sections.length) show(placed() ?? Number(worst?.dataset.run ?? 0));
})();
