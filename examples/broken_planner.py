"""A broken planner pays 25 invoices round and round; limits derived from 200 healthy runs stop it.

1. The same loop with a planner that is well pays 25 invoices, 200 times. Each run is kept as a plain log.
2. `lastcall baseline` derives the limits of a policy from those logs: twice the 99th percentile.
3. The broken planner forgets what is done. It lists the invoices, pays them all and begins again, with another
   memo each time, until the provider disables the account (ungoverned) or the guard ends the run (governed).

A payment is declared `writes`, its identity is the invoice, and a repeat is answered by the first result. So the
planner may go round, and nobody is charged twice; what ends it is the budget of requests to the model.

Run: python examples/broken_planner.py
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from lastcall import Call, Guard, Incident, Outcome, Policy, Stopped
from lastcall.cli import main as lastcall
from lastcall.testing import FakeClock, Request, SimulatedProvider

HEALTHY = 200
INVOICES = 25
MONTH = 201
"""The month that both planners are given."""
THINKS = 0.5
"""Seconds that the model takes for each step."""

Step = tuple[str, dict[str, Any]]
Planner = Callable[[int], Iterator[Step]]


def well(month: int) -> Iterator[Step]:
    """Lists the invoices and pays each of them once; every tenth month it looks again at the end."""
    yield "list_invoices", {"of": f"month {month}"}
    for number in range(INVOICES):
        yield "pay", {"invoice": f"{month}-{number}", "amount": 10 + number, "memo": "paid"}
    if month % 10 == 0:
        yield "list_invoices", {"of": f"month {month}"}


def broken(month: int) -> Iterator[Step]:
    """Never knows what is done: another round, worded a little differently."""
    for plan in count(1):
        yield "list_invoices", {"of": f"month {month}" + " " * plan}
        for number in range(INVOICES):
            memo = f"plan {plan}, invoice {number}"
            yield "pay", {"invoice": f"{month}-{number}", "amount": 10 + number, "memo": memo}


def tools_of(provider: SimulatedProvider) -> dict[str, Callable[..., Any]]:
    """What the agent can do."""

    def list_invoices(of: str) -> dict[str, Any]:
        return {"of": of.strip(), "open": INVOICES}

    def pay(invoice: str, amount: int, memo: str) -> dict[str, Any]:
        response = provider.handle(Request({"invoice": invoice, "amount": amount, "memo": memo}))
        return {"status": response.status, **response.body}

    return {"list_invoices": list_invoices, "pay": pay}


def guarded(tools: dict[str, Callable[..., Any]], guard: Guard) -> dict[str, Callable[..., Any]]:
    """The same, by the guard's leave. A memo does not tell two payments apart."""
    once = guard.wrap(writes=True, identity=["invoice"], volatile=["memo"], on_repeat="replay")
    listing = guard.wrap(reads=True)
    return {"list_invoices": listing(tools["list_invoices"]), "pay": once(tools["pay"])}


def think(guard: Guard | None) -> None:
    """One request to the model. Raises Stopped when there may be none."""
    if guard is None:
        return
    verdict = guard.decide(Call("model", kind="model"))
    if verdict.stop is not None:
        raise guard.stopped(verdict.ending or verdict.stop)
    if verdict.ticket is not None:
        guard.observe(verdict.ticket, Outcome())


class Played(NamedTuple):
    """One run of the agent: the service that it paid by, its log, and what the guard tells of it."""

    provider: SimulatedProvider
    log: list[dict[str, Any]]
    report: Incident | None


def played(planner: Planner, month: int, policy: Policy | None = None) -> Played:
    """Play one run. The provider takes 100 requests a minute, and disables who was rejected 60 times."""
    clock = FakeClock()
    provider = SimulatedProvider(clock, limit=100, disable_after=60)
    guard = Guard(policy, clock=clock) if policy else None
    tools = guarded(tools_of(provider), guard) if guard else tools_of(provider)
    log: list[dict[str, Any]] = []
    with guard.within(run="r1") if guard else nullcontext():
        for name, args in planner(month):
            clock.tick(THINKS)
            try:
                think(guard)
                result = tools[name](**args)
            except Stopped as stopped:
                if stopped.stop.ends_run:
                    break
                result = {"stopped": stopped.stop.reason}
            log.append({"ts": clock(), "name": name, "args": args, "result": result})
            if provider.disabled_at is not None:
                break
    return Played(provider, log, guard.report("r1") if guard else None)


def derived(folder: Path) -> Policy:
    """The policy that `lastcall baseline` derives from the logs of healthy runs."""
    for month in range(HEALTHY):
        lines = [json.dumps(row) + "\n" for row in played(well, month).log]
        (folder / f"month-{month:03}.jsonl").write_text("".join(lines))
    lastcall(["baseline", str(folder), "-o", str(folder / "policy.toml")])
    return Policy.from_toml(folder / "policy.toml")


def told(who: str, run: Played) -> None:
    """What a run charged, and how it ended."""
    charges = len(run.provider.charges)
    pays = sum(row["name"] == "pay" for row in run.log)
    print(f"  {who}: {len(run.log)} steps, {charges} charges, {charges - INVOICES} of them surplus")
    if run.provider.disabled_at is not None:
        print(f"    disabled by the provider after {run.provider.rejected} rejections")
    if run.report and run.report.stopped_by:
        print(
            f"    stopped by {run.report.stopped_by.cause}, {run.report.stopped_by.limit} of them"
        )
        print(f"    {pays - charges} payments were answered by their first result")
    for alert in run.report.alerts if run.report else ():
        print(f"    alert at {alert}")


def main() -> None:
    """The limits, then both planners, ungoverned beside governed."""
    logging.getLogger("lastcall").addHandler(logging.NullHandler())  # alerts are printed below
    print("From healthy runs")
    with TemporaryDirectory() as folder:
        policy = derived(Path(folder))
    rules = {rule.name: rule for rule in policy.rules}
    (requests,) = rules["budget"].limits
    print(f"  {requests.name}: at most {requests.most}, alert at {requests.alert}")
    print(f"  calls: at most {rules['ceiling'].calls}, alert at {rules['ceiling'].alert}")
    for what, planner in (("A planner that is well", well), ("A broken planner", broken)):
        print(what)
        told("ungoverned", played(planner, MONTH))
        told("governed", played(planner, MONTH, policy))


if __name__ == "__main__":
    main()
