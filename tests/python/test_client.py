"""Look-ups of databases, snapshots and services, and studies: against a daemon and an agent that
these tests start."""
import os
import re
import subprocess
import time

import pytest

import loopwright as lw
from loopwright.program import executable

NEAR = lw.op("matmul", M=60, N=64, K=64)
OTHER = lw.op(text="op scale(N = 32) {\n  in X: f32[N]\n  out Y[i: N] = X[i] * 3\n}\n", N=5)


@pytest.fixture(scope="module")
def snapshot(tuned_db, tmp_path_factory):
    path = tmp_path_factory.mktemp("snapshot") / "all.lws"
    subprocess.run([executable(), "db", "snapshot", "-o", str(path), "--db", str(tuned_db[0])],
                   check=True, capture_output=True)
    return path


@pytest.fixture
def serve(tmp_path):
    """serve(db): the address of a daemon, and what ends it."""
    running = []

    def start(db):
        address = f"unix:{tmp_path / 'socket'}"
        service = subprocess.Popen([executable(), "serve", "--listen", address, "--http", "", "--db",
                                    str(db)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   text=True)
        running.append(service)
        assert service.stdout.readline().startswith("serving")

        def end():
            service.terminate()
            service.wait(30)
        return address, end
    yield start
    for service in running:
        service.kill()
        service.wait(30)


def test_looks_up_databases_and_snapshots(tuned_db, snapshot, tmp_path):
    db, op, tuned, _ = tuned_db
    for client, origin in ((lw.Client(db=db), "database"), (lw.Client(snapshot=snapshot), "snapshot")):
        answer = client.lookup(op, threads=1)
        assert answer.outcome == "exact" and answer.trace == tuned.trace
        assert answer.origin == origin and answer.time_us == pytest.approx(tuned.best_us)
        with pytest.raises(lw.NotTuned, match="'matmul M=60' is not tuned"):
            client.lookup(lw.op("matmul", M=60), threads=1, frozen=True)
    assert op.kernel(snapshot=snapshot, threads=1, on_miss="error").trace == tuned.trace
    damaged = tmp_path / "damaged.lws"
    damaged.write_bytes(snapshot.read_bytes()[:100])
    with pytest.raises(lw.EnvironmentFailed, match="damaged.lws"):
        lw.Client(snapshot=damaged).lookup(op, threads=1)


def test_one_call_answers_many(tuned_db, snapshot, caplog):
    db, op, tuned, _ = tuned_db
    bf16 = lw.op("matmul", M=64, N=64, K=64, allow="bf16")
    with caplog.at_level("DEBUG", "loopwright"):
        answers = lw.Client(db=db).lookup_all([op, OTHER, NEAR, op, bf16], threads=1)
    assert sum("running" in message for message in caplog.messages) == 1
    assert [answer.op for answer in answers] == [op, OTHER, NEAR, op, bf16]
    assert [answer.outcome for answer in answers[:4]] == ["exact", "default", "nearest-shape", "exact"]
    assert answers[0] == answers[3] and answers[4].outcome != "exact"
    assert answers[1].time_us is None and answers[1].origin == ""
    assert lw.Client(snapshot=snapshot).lookup_all([]) == []
    with pytest.raises(lw.NotTuned, match="2 of 3 workloads are not tuned in .*all.lws") as missed:
        lw.Client(snapshot=snapshot).lookup_all([op, OTHER, NEAR], threads=1, frozen=True)
    assert "f32[5]" in missed.value.request["workloads"][0]["program"]
    with pytest.raises(lw.BadRequest, match="did you mean 'matmul'"):
        lw.Client(db=db).lookup_all([op, lw.op("matmull")])


def test_a_client_asks_somebody(tuned_db):
    for wrong in ({}, {"server": "host:7070", "db": tuned_db[0]}, {"snapshot": "x", "db": "y"}):
        with pytest.raises(lw.BadRequest, match="a client asks a server, a snapshot or both"):
            lw.Client(**wrong)
    with pytest.raises(lw.BadRequest, match="cache= and deadline_ms= are of a server's answers"):
        lw.Client(snapshot="x", cache=True)
    with pytest.raises(lw.BadRequest, match="studies are a service's"):
        lw.Client(db=tuned_db[0]).submit(NEAR)


def test_asks_a_service(tuned_db, serve):
    db, op, tuned, _ = tuned_db
    address, end = serve(db)
    client = lw.Client(address)
    answer, near = client.lookup_all([op, NEAR], threads=1)
    assert answer.outcome == "exact" and answer.trace == tuned.trace and answer.origin == "server"
    assert answer.time_us == pytest.approx(tuned.best_us)
    assert near.outcome == "nearest-shape"
    with pytest.raises(lw.NotTuned) as missed:
        client.lookup(NEAR, threads=1, frozen=True)
    assert missed.value.request["workloads"][0]["words"] == "matmul M=60 N=64 K=64"
    end()
    with pytest.raises(lw.EnvironmentFailed, match=re.escape(address)):
        client.lookup(op, threads=1)


def test_what_is_at_hand_answers_for_a_service_that_is_away(tuned_db, snapshot, serve, tmp_path,
                                                           caplog):
    db, op, tuned, _ = tuned_db
    address, end = serve(db)
    asked = lw.Client(address, cache=tmp_path / "kept", deadline_ms=20000)
    assert [a.origin for a in asked.lookup_all([op, OTHER], threads=1)] == ["server", ""]
    end()
    for client, origin in ((asked, "cache"), (lw.Client(address, snapshot=snapshot), "snapshot")):
        answer, other = client.lookup_all([op, OTHER], threads=1)
        assert (answer.outcome, answer.origin, answer.trace) == ("exact", origin, tuned.trace)
        assert answer.time_us == pytest.approx(tuned.best_us) and other.outcome == "default"
        assert client.lookup(op, threads=1, frozen=True).origin == origin
    with caplog.at_level("INFO", "loopwright"):
        assert lw.Client(address, cache=True).lookup(NEAR, threads=1).outcome == "default"
    assert f"no answer from {address} within 50 ms" in caplog.text
    with pytest.raises(lw.EnvironmentFailed, match=f"no answer from {re.escape(address)} within 50"):
        lw.Client(address, snapshot=snapshot).lookup(NEAR, threads=1, frozen=True)


@pytest.fixture
def fleet(serve, tmp_path):
    """The client of a daemon that has one device, which only pretends to measure."""
    address, _ = serve(tmp_path / "service.db")
    agent = subprocess.Popen([executable(), "agent", "--server", address, "--state",
                              str(tmp_path / "state"), "--device", "null:one,target=x86_avx2"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield lw.Client(address)
    agent.terminate()
    agent.wait(30)


def test_submits_and_watches_a_study(fleet):
    op = lw.op("matmul", M=32, N=32, K=32)
    asked = fleet.submit([op, OTHER, op], trials=6, threads=1, priority=3, labels={"of": "test"})
    assert asked.name.startswith("studies/") and not asked.ended and asked.refused == {}
    assert asked.document["spec"]["labels"] == {"of": "test"}
    events = []
    study = asked.watch(events.append)
    assert study.state == "succeeded" and study.ended and study.error == ""
    assert [w.name for w in study.workloads] == [str(op), "scale N=5"]
    assert all(w.done and w.best_us > 0 and w.zero_us >= w.best_us for w in study.workloads)
    assert events[0].kind == "created" and events[-1].kind == "ended"
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert any(e.kind == "improved" and e.workload == str(op) and e.best_us > 0 for e in events)
    later = []
    assert asked.watch(later.append, after=events[-2].sequence).state == "succeeded"
    assert [event.kind for event in later] == ["ended"]
    assert asked.now() == study == fleet.study(study.name)
    assert [one.name for one in fleet.studies("state = SUCCEEDED")] == [study.name]
    assert fleet.lookup(op, threads=1, target="x86_avx2", frozen=True).outcome == "exact"


def test_says_what_of_a_study_is_refused(fleet):
    study = fleet.submit([NEAR, lw.op("matmull"), lw.op("relu", N=8, allow="winograd")], trials=2,
                         target="aarch64_neon", threads=1)
    assert list(study.refused) == ["matmull", "relu N=8"]
    assert "did you mean 'matmul'?" in study.refused["matmull"]
    ended = study.cancel()
    assert ended.state == "cancelled" == study.watch().state and ended.refused == study.refused
    with pytest.raises(lw.BadRequest, match="did you mean 'matmul'"):
        fleet.submit(lw.op("matmull"))
    with pytest.raises(lw.NotTuned, match="studies/nothing"):
        fleet.study("studies/nothing")
    again = [fleet.submit(NEAR, trials=2, request_id="one", target="x86_avx2") for _ in range(2)]
    assert again[0].name == again[1].name


def test_a_service_that_is_away_is_said_by_name(serve, tmp_path):
    address, end = serve(tmp_path / "service.db")
    client = lw.Client(address)
    study = client.submit(NEAR, trials=2)
    assert study.state == "queued" and "no device" in study.waiting
    end()
    for ask in (lambda: client.submit(NEAR), lambda: study.watch(patience=0.5)):
        with pytest.raises(lw.EnvironmentFailed, match=f"{re.escape(address)}|has been away"):
            ask()
