"""A write is made once: through the guard, on threads, tasks and stores, and against a service that keeps keys."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from msgspec.structs import replace

from lastcall import Call, MemoryStore, Outcome, Policy, Stopped, ToolPolicy, Where
from lastcall.flights import Flight
from lastcall.idempotency import operation_key
from lastcall.simulated import LostAnswerError, Request, SimulatedProvider
from lastcall.wrapping import Calling

ONCE = {"writes": True, "identity": ("invoice",), "on_repeat": "replay"}


@pytest.fixture
def events():
    return []


@pytest.fixture
def guard(make_guard, events):
    return make_guard(listeners=[events.append])


@pytest.fixture
def paid():
    return []


@pytest.fixture
def pay(guard, paid):
    @guard.wrap(**ONCE)
    def pay(invoice, amount=10):
        paid.append(invoice)
        return {"charge": len(paid), "amount": amount}

    return pay


def stop_of(body, *args, **kwargs):
    with pytest.raises(Stopped) as caught:
        body(*args, **kwargs)
    return caught.value.stop


def test_a_repeat_is_answered_by_the_first_result_in_every_run(guard, pay, paid, events):
    with guard.within(run="r1"):
        first = pay(7)
        assert pay(7) == first
    with guard.within(run="r2"):
        again = pay(7)
        assert again == first
        again["charge"] = "changed by who got it"
        assert pay(7) == first
    assert paid == [7]
    replayed = [each for each in events if each.kind == "replayed"]
    assert [each.run for each in replayed] == ["r1", "r2", "r2"]
    assert replayed[1].message == "answered by its first result in run r1"


@pytest.mark.asyncio
async def test_the_same_of_an_async_function(guard, paid):
    @guard.wrap(**ONCE)
    async def pay(invoice):
        paid.append(invoice)
        return f"paid {invoice}"

    with guard.within(run="r1"):
        assert [await pay(7), await pay(7)] == ["paid 7"] * 2
    assert paid == [7]


def test_a_hand_made_loop_is_told_that_it_is_done(make_guard, paid):
    guard = make_guard(Policy(tools={"pay": ONCE}))
    with guard.within(run="r1"):
        for _ in range(2):
            try:
                with guard.calling("pay", {"invoice": 7}) as call:
                    paid.append(7)
                    call.result("paid 7")
            except Stopped as stopped:
                assert (stopped.stop.reason, stopped.stop.detail) == ("done", '"paid 7"')
                assert "go on from what it brought" in stopped.stop.text
    assert paid == [7]


def test_other_parameters_are_a_conflict_and_none_are_no_key(guard, pay, paid):
    with guard.within(run="r1"):
        pay(7, amount=10)
        conflict = stop_of(pay, 7, amount=20)
        assert (conflict.reason, conflict.scope, conflict.retryable) == ("conflict", "call", False)
    with guard.within(run="r2"):
        assert stop_of(pay, None).reason == "no_key"
    assert paid == [7]


def test_a_policy_that_names_an_identity_later_on_takes_nothing_for_a_conflict(make_guard):
    guard = make_guard(Policy(tools={"pay": {"writes": True}}))
    call = Call("pay", {"invoice": 7}, Where(run="r1"))
    guard.observe(guard.decide(call).ticket, Outcome(content="paid"))
    guard.reload(Policy(tools={"pay": {"writes": True, "identity": ("invoice",)}}))
    assert guard.decide(call).ticket


def test_tenants_and_tools_have_keys_of_their_own(guard, pay, paid):
    refund = guard.wrap(lambda invoice: paid.append(-invoice), name="refund", **ONCE)
    for tenant in ("a", "b"):
        with guard.within(run=f"r-{tenant}", tenant=tenant):
            pay(7)
            refund(7)
    assert paid == [7, -7, 7, -7]


def test_r178_a_callers_own_key(guard, paid):
    """The same key twice: one execution and the same result. Two keys with equal arguments: two."""

    @guard.wrap(writes=True, identity=("key",), on_repeat="replay")
    def send(text, key):
        paid.append(text)
        return len(paid)

    with guard.within(run="r1"):
        assert [send("hello", "k1"), send("hello", "k1"), send("hello", "k2")] == [1, 1, 2]


def test_a_callers_own_key_on_the_call_itself(guard):
    policy = ToolPolicy(writes=True, on_repeat="replay")
    where = Where(run="r1", tenant="acme")
    first = guard.decide(Call("send", {"text": "x"}, where, key="order-7"), policy)
    assert first.call.key == "order-7"
    guard.observe(first.ticket, Outcome(content="sent", kept='"sent"'))
    again = guard.decide(Call("send", {"text": "x"}, where, key="order-7"), policy)
    assert (again.ticket, again.stop) == (None, None)
    assert again.replay.result == "sent"
    other = guard.decide(Call("send", {"text": "y"}, where, key="order-7"), policy)
    assert other.stop.reason == "conflict"
    stranger = Where(run="r2", tenant="other")
    assert guard.decide(Call("send", {"text": "y"}, stranger, key="order-7"), policy).ticket


@pytest.mark.parametrize("key", [UUID(int=7), 7, "two words", "ä" * 300], ids=repr)
def test_a_callers_own_key_may_be_anything(guard, key):
    policy = ToolPolicy(writes=True, on_repeat="replay")
    first = guard.decide(Call("send", {}, Where(run="r1"), key=key), policy)
    assert first.ticket.call.key.isascii()
    assert (
        guard.decide(Call("send", {}, Where(run="r1"), key=key), policy).stop.reason
        == "in_progress"
    )


class TestTwoAtOnce:
    """R183: the model emits one call twice in a reply. One execution, and both are answered alike."""

    def test_on_threads(self, guard, paid):
        both = threading.Barrier(2)
        running = threading.Event()
        release = threading.Event()

        @guard.wrap(**ONCE)
        def pay(invoice):
            running.set()
            release.wait(20)
            paid.append(invoice)
            return f"charge {len(paid)}"

        def call(_):
            with guard.within(run="r1", turn="t"):
                both.wait(20)
                return pay(7)

        with ThreadPoolExecutor(2) as pool:
            futures = [pool.submit(call, n) for n in range(2)]
            assert running.wait(20)
            release.set()
            assert [each.result(20) for each in futures] == ["charge 1"] * 2
        assert paid == [7]

    @pytest.mark.asyncio
    async def test_in_an_event_loop(self, guard, paid):
        @guard.wrap(**ONCE)
        async def pay(invoice):
            await asyncio.sleep(0)
            paid.append(invoice)
            return f"charge {len(paid)}"

        with guard.within(run="r1", turn="t"):
            assert await asyncio.gather(*(pay(7) for _ in range(4))) == ["charge 1"] * 4
        assert paid == [7]
        assert guard._flights._open == {}

    @pytest.mark.asyncio
    async def test_the_one_that_waits_may_be_called_off(self, guard, paid):
        begun, release = asyncio.Event(), asyncio.Event()

        @guard.wrap(**ONCE)
        async def pay(invoice):
            begun.set()
            await release.wait()
            paid.append(invoice)
            return "paid"

        with guard.within(run="r1", turn="t"):
            first = asyncio.create_task(pay(7))
            await begun.wait()
            second, third = asyncio.create_task(pay(7)), asyncio.create_task(pay(7))
            await asyncio.sleep(0)
            second.cancel()
            release.set()
            assert [await first, await third] == ["paid", "paid"]
            with pytest.raises(asyncio.CancelledError):
                await second
        assert paid == [7]

    @pytest.mark.asyncio
    async def test_when_the_first_fails_the_second_is_made(self, guard, paid):
        @guard.wrap(**ONCE)
        async def pay(invoice):
            await asyncio.sleep(0)
            paid.append(invoice)
            if len(paid) == 1:
                raise ValueError("out of stock")
            return "paid"

        with guard.within(run="r1", turn="t"):
            first, second = await asyncio.gather(pay(7), pay(7), return_exceptions=True)
        assert isinstance(first, ValueError)
        assert second == "paid"
        assert paid == [7, 7]

    def test_a_write_inside_itself_does_not_wait_for_itself(self, guard):
        @guard.wrap(**ONCE)
        def pay(invoice):
            return stop_of(pay, invoice).reason

        with guard.within(run="r1", turn="t"):
            assert pay(7) == "in_progress"

    @pytest.mark.asyncio
    async def test_an_event_loop_is_not_held_up(self, guard):
        """A plain function in a loop, while the first runs in a thread that may need the loop."""
        begun, release = threading.Event(), threading.Event()

        @guard.wrap(**ONCE)
        def pay(invoice):
            begun.set()
            release.wait(20)
            return "paid"

        with guard.within(run="r1", turn="t"):
            first = asyncio.create_task(asyncio.to_thread(pay, 7))
            assert await asyncio.to_thread(begun.wait, 20)
            assert stop_of(pay, 7).reason == "in_progress"
            release.set()
            assert await first == "paid"

    @pytest.mark.asyncio
    async def test_who_is_waited_for_does_not_wait(self, guard, monkeypatch):
        """Two that wait for each other would do so until both give up."""
        monkeypatch.setattr(Flight, "await_", None)
        policy, where = ToolPolicy(writes=True, on_repeat="replay"), Where(run="r1")
        outer = await guard.adecide(Call("charge", {"n": 7}, where, key="k"), policy, wait=True)
        mark = guard.bodies.enter("charge", "calling", None, outer.ticket)
        inner = await guard.adecide(Call("mail", {"n": 7}, where, key="k"), policy, wait=True)
        guard.bodies.leave(mark)
        assert inner.stop.reason == "conflict"

    @pytest.mark.asyncio
    async def test_in_the_shadow_nobody_waits(self, make_guard):
        rules = Policy().rules
        off = tuple(
            rule.model_copy(update={"enforce": False}) if rule.name == "writes" else rule
            for rule in rules
        )
        for policy in (Policy(enforce=False), Policy(rules=off)):
            guard, both = make_guard(policy), asyncio.Barrier(2)

            @guard.wrap(**ONCE)
            async def pay(invoice, both=both):
                await both.wait()
                return "paid"

            with guard.within(run="r1"):
                assert await asyncio.gather(pay(7), pay(7)) == ["paid", "paid"]

    def test_of_one_that_is_never_settled_nothing_stays(self, guard):
        verdict = guard.decide(Call("pay", {"invoice": 7}, Where(run="r1")), ToolPolicy(**ONCE))
        assert guard._flights
        del verdict
        gc.collect()
        assert not guard._flights

    def test_who_asks_again_while_it_runs_ignores_nothing(self, guard):
        policy = ToolPolicy(**ONCE)
        guard.decide(Call("pay", {"invoice": 7}, Where(run="r1")), policy)
        for number in range(9):
            call = Call("pay", {"invoice": 7}, Where(run="r2"), f"c{number}", reply=f"m{number}")
            verdict = guard.decide(call, policy)
            assert (verdict.stop.reason, verdict.ending) == ("in_progress", None)


class Held:
    """A store for a fleet, whose answers are held up."""

    shared = True

    def __init__(self):
        self.store = MemoryStore()
        self.asked = asyncio.Event()
        self.answers = asyncio.Event()

    def __getattr__(self, name):
        return getattr(self.store, name)

    async def aupdate(self, keys, step, now):
        answer = self.store.update(keys, step, now)
        self.asked.set()
        await self.answers.wait()
        return answer


@pytest.mark.asyncio
async def test_who_is_called_off_before_the_first_result_arrives_takes_it_from_nobody(make_guard):
    policy, call = ToolPolicy(**ONCE), Call("pay", {"invoice": 7}, Where(run="r1"))
    store = Held()
    guard = make_guard(store=store, switch=False)
    first = guard.decide(call, policy)
    guard.observe(first.ticket, Outcome(content="paid", kept='"paid"'))
    waits = asyncio.ensure_future(guard.adecide(call, policy))
    await store.asked.wait()
    waits.cancel()
    await asyncio.wait([waits])
    store.answers.set()
    await asyncio.wait(guard._settlements._open)
    assert guard.decide(call, policy).replay.result == "paid"


@pytest.mark.asyncio
async def test_what_a_plain_function_gave_to_be_awaited_is_not_kept(guard, paid):
    async def paying(invoice):
        paid.append(invoice)
        return "paid"

    pay = guard.wrap(lambda invoice: paying(invoice), name="pay", **ONCE)
    with guard.within(run="r1"):
        assert await pay(7) == "paid"
        assert stop_of(pay, 7).reason == "done"
    assert paid == [7]


class TestAPerson:
    def call(self, number):
        return Call("pay", {"invoice": number}, Where(run="r"), f"c{number}", reply=f"m{number}")

    def test_who_raises_a_limit_has_nothing_made_again(self, make_guard):
        guard = make_guard(Policy(max_calls=1, tools={"pay": ONCE}))
        first = guard.decide(self.call(7))
        guard.observe(first.ticket, Outcome(content="paid", kept='"paid"'))
        assert guard.decide(self.call(8)).stop.reason == "ceiling"
        again = replace(self.call(7), id="again", reply="again")
        refused = guard.decide(again)
        assert refused.stop.reason == "ceiling"
        assert guard.person.pardon(refused) is None
        assert guard.decide(again).replay.result == "paid"

    def test_who_lets_one_pass_has_none_made_beside_one_that_runs(self, guard):
        policy = ToolPolicy(**ONCE)
        guard.decide(self.call(7), policy)
        again = replace(self.call(7), id="again", reply="again")
        refused = guard.decide(again, policy)
        assert guard.person.pardon(refused) is None
        assert guard.decide(again, policy).stop.reason == "in_progress"

    def test_who_lets_the_run_go_on_has_nothing_made_again(self, guard):
        policy = ToolPolicy(**ONCE)
        guard.observe(guard.decide(self.call(7), policy).ticket, Outcome("lost"))
        for number in range(2):
            again = replace(self.call(7), id=f"again-{number}", reply=f"m-{number}", size=1)
            refused = guard.decide(again, policy)
        assert (refused.stop.reason, refused.ending.reason) == ("unknown_outcome", "refusals")
        assert guard.person.pardon(refused) is None
        assert guard.decide(again, policy).stop.reason == "unknown_outcome"

    def test_may_let_one_pass_that_nobody_knows_of(self, guard):
        policy = ToolPolicy(**ONCE)
        guard.observe(guard.decide(self.call(7), policy).ticket, Outcome("lost"))
        again = replace(self.call(7), id="again", reply="again")
        refused = guard.decide(again, policy)
        assert refused.stop.reason == "unknown_outcome"
        assert guard.person.pardon(refused) is None
        assert guard.decide(again, policy).ticket


class TestWhatNobodyKnows:
    def test_is_not_made_again_until_somebody_says_so(self, guard, paid):
        @guard.wrap(writes=True)
        def pay(invoice):
            paid.append(invoice)
            raise TimeoutError("no answer")

        with guard.within(run="r1"), pytest.raises(TimeoutError):
            pay(7)
        with guard.within(run="r2"):
            stop = stop_of(pay, 7)
        assert (stop.reason, stop.scope, stop.retryable) == ("unknown_outcome", "call", False)
        assert "nobody knows whether it was carried out" in stop.text
        assert paid == [7]
        assert stop.key == operation_key("pay", {"invoice": 7})
        assert guard.reconcile(stop.key, happened=False)
        with guard.within(run="r3"), pytest.raises(TimeoutError):
            pay(7)
        assert paid == [7, 7]

    def test_r187_a_crash_after_execution_is_unknown_after_the_resume(self, make_guard, clock):
        store = MemoryStore()
        call = Call("pay", {"invoice": 7}, Where(run="r", turn="t"), "c1", reply="m1")
        policy = ToolPolicy(writes=True)
        dead = make_guard(store=store)
        assert dead.decide(call, policy).ticket, "its process dies before it is settled"
        resumed = make_guard(store=store)
        soon = resumed.decide(call, policy).stop
        assert (soon.reason, soon.retryable) == ("in_progress", True)
        clock.tick(300)
        assert resumed.decide(call, policy).stop.reason == "unknown_outcome"

    def test_may_be_said_to_have_happened_with_what_it_brought(self, guard, paid):
        @guard.wrap(**ONCE)
        def pay(invoice):
            paid.append(invoice)
            raise ConnectionError("lost")

        with guard.within(run="r1", tenant="acme"), pytest.raises(ConnectionError):
            pay(7)
        key = operation_key("pay", {"invoice": 7}, tenant="acme", identity=("invoice",))
        assert guard.reconcile(key, happened=True, result="ch_1", tenant="acme")
        with guard.within(run="r2", tenant="acme"):
            assert pay(7) == "ch_1"
        assert paid == [7]

    def test_of_what_there_is_no_record_nothing_can_be_said(self, guard):
        assert not guard.reconcile("_:pay:0", happened=True)

    def test_of_what_runs_nothing_is_said_either(self, guard, clock):
        runs = guard.decide(Call("pay", {"invoice": 7}, Where(run="r1")), ToolPolicy(**ONCE))
        assert not guard.reconcile(runs.call.key, happened=False)
        clock.tick(300)
        assert guard.reconcile(runs.call.key, happened=False)


def test_k37_the_result_first_then_the_hooks(make_guard, paid, caplog):
    """The side effect is done, then the listener raises. On resume nothing runs a second time."""

    def sink(event):
        raise RuntimeError("the sink is down")

    guard = make_guard(listeners=[sink])
    pay = guard.wrap(lambda invoice: paid.append(invoice) or "paid", name="pay", **ONCE)
    for _ in range(2):
        with guard.within(run="r1"):
            assert pay(7) == "paid"
    assert paid == [7]
    assert "the sink is down" in caplog.text


def test_what_is_raised_after_the_result_was_told_takes_nothing_back(guard, paid):
    policy = ToolPolicy(**ONCE)
    guard.declare("pay", policy)
    for error in (ValueError("the row is locked"), KeyboardInterrupt()):
        with guard.within(run="r1"), pytest.raises(type(error)):
            with Calling(guard, Call("pay", {"invoice": str(error)}), policy) as call:
                call.result("paid")
                raise error
        with guard.within(run="r2"), pytest.raises(Stopped) as caught:
            with Calling(guard, Call("pay", {"invoice": str(error)}), policy):
                paid.append(7)
        assert (caught.value.stop.reason, caught.value.stop.detail) == ("done", '"paid"')
    assert paid == []


def test_k38_code_that_is_run_again_from_its_start(guard, paid):
    """Three resumes: one execution, the stored result three times, count 1."""
    policy = ToolPolicy(**ONCE)
    call = Call("pay", {"invoice": 7}, Where(run="r", turn="t"), "c1", reply="m1")
    first = guard.decide(call, policy)
    guard.observe(first.ticket, Outcome(content="paid", kept='"paid"'))
    replays = [guard.decide(call, policy).replay for _ in range(5)]
    assert {each.result for each in replays} == {"paid"}
    assert guard.report("r").totals.executed == 1


def test_the_same_where_another_run_made_it(guard):
    policy = ToolPolicy(**ONCE)
    first = guard.decide(Call("pay", {"invoice": 7}, Where(run="r1")), policy)
    guard.observe(first.ticket, Outcome(content="paid", kept='"paid"'))
    reply = [Call("pay", {"invoice": 7}, Where(run="r2"), f"c{n}", reply="m1") for n in range(3)]
    replays = [guard.decide(call, policy).replay for _ in range(5) for call in reply]
    assert {each.result for each in replays} == {"paid"}
    assert guard.decide(replace(reply[0], id="c4"), policy).stop.reason == "repeat"


def test_without_a_word_about_repeats_a_write_is_made_again(guard, paid):
    @guard.wrap(writes=True)
    def switch(on):
        paid.append(on)
        return len(paid)

    with guard.within(run="r1"):
        assert [switch(True), switch(True)] == [1, 2]


def test_a_result_that_is_too_large_is_not_made_anew(guard, paid):
    @guard.wrap(**ONCE)
    def pay(invoice):
        paid.append(invoice)
        return "x" * 70_000

    with guard.within(run="r1"):
        assert len(pay(7)) == 70_000
        assert stop_of(pay, 7).reason == "done"
    assert paid == [7]


def test_a_guard_in_the_shadow_replays_nothing(make_guard, paid, events):
    guard = make_guard(Policy(enforce=False), listeners=[events.append])
    pay = guard.wrap(lambda invoice: paid.append(invoice), name="pay", **ONCE)
    with guard.within(run="r1"):
        pay(7)
        pay(7)
        pay(None)
    assert paid == [7, 7, None]
    assert [each.reason for each in events if each.kind == "shadow"] == ["no_key"]


class TestAgainstAService:
    """The three experiments of duplicate writes, and a correction, on the simulated provider."""

    def charges(self, guard, clock, key_of, retries=2):
        provider = SimulatedProvider(clock)
        provider.lose_answers()

        @guard.retrying(attempts=retries, writes=True, keyed=True, sleep=clock.tick, name="pay")
        def pay(invoice):
            response = provider.handle(Request({"invoice": invoice}, key_of(invoice)))
            return dict(response.body)

        with guard.within(run="r1"):
            assert pay(7)["invoice"] == 7
        return len(provider.charges)

    def test_two_without_a_key_two_with_a_fresh_one_one_with_the_operations(self, guard, clock):
        numbers = iter(range(9))
        assert self.charges(guard, clock, lambda invoice: None) == 2
        with guard.within(run="r1"):
            guard.finish("r1")
        fresh = self.charges(
            guard.__class__(clock=clock), clock, lambda invoice: f"k{next(numbers)}"
        )
        assert fresh == 2
        key = lambda invoice: operation_key("pay", {"invoice": invoice})
        assert self.charges(guard.__class__(clock=clock), clock, key) == 1

    def test_a_lost_answer_is_not_made_good_by_a_second_charge(self, guard, clock):
        provider = SimulatedProvider(clock)
        provider.lose_answers()

        @guard.wrap(writes=True)
        def pay(invoice):
            return provider.handle(Request({"invoice": invoice}))

        with guard.within(run="r1"):
            with pytest.raises(LostAnswerError):
                pay(7)
            assert stop_of(pay, 7).reason == "unknown_outcome"
        assert len(provider.charges) == 1

    def test_a_malformed_write_is_corrected_under_the_same_key(self, guard, clock):
        invalid = lambda body: None if body.get("amount") else "amount is missing"
        provider = SimulatedProvider(clock, invalid=invalid)
        keys = []

        @guard.wrap(**ONCE)
        def pay(invoice, amount=None):
            keys.append(operation_key("pay", {"invoice": invoice}))
            answer = provider.handle(Request({"invoice": invoice, "amount": amount}, keys[-1]))
            return {"status_code": answer.status, **answer.body}

        with guard.within(run="r1"):
            assert stop_of(pay, 7).status == 422
            assert pay(7, amount=10)["status_code"] == 201
            assert pay(7, amount=10)["status_code"] == 201
        assert len(set(keys)) == 1
        assert len(provider.charges) == 1
