"""The client side of the HTTP seam: streams, problems, and an owner that is not there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.failure import CommandError, GatewayProblem, OwnerLost, UsageError
from orchestrator.cli.reaching import GatewayReader, find_pod, reach
from orchestrator.cli.seam import Gateway
from orchestrator.home import Home, Owner
from tests.support.fake_gateway import CHILD, ROOT, SECRET, FakeGateway, served


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeGateway]:
    gateway = FakeGateway()
    with served(gateway, tmp_path / "home"):
        yield gateway


def test_a_problem_keeps_its_type_and_its_words(fake: FakeGateway) -> None:
    with pytest.raises(GatewayProblem, match="There is no such Pod") as caught:
        Gateway(fake.address, SECRET).get("/v1/pods/nope")
    assert (caught.value.type, caught.value.status) == ("not-found", 404)
    with pytest.raises(GatewayProblem, match="No token"):
        Gateway(fake.address, "wrong").get("/v1/pods")


def test_an_owner_that_is_gone_is_named_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(OwnerLost, match=rf"does not answer at http://127.0.0.1:{port} \(.*refused"):
        Gateway(f"http://127.0.0.1:{port}").get("/healthz")


def test_something_else_on_the_port_is_not_taken_for_polypod() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_answer, args=(listener, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"))
        thread.start()
        with pytest.raises(OwnerLost, match="another program"):
            Gateway(f"http://127.0.0.1:{listener.getsockname()[1]}").get("/healthz")
        thread.join()


def test_a_closed_stream_ends_with_the_comment_of_a_quiet_one() -> None:
    quiet = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: status\ndata: {}\n\n"
    closed, listening = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(quiet)
            assert closed.wait(20)
            connection.sendall(b": keepalive\n\n")
            assert connection.recv(1) == b"", "the client has left"

    with listening:
        thread = threading.Thread(target=serve)
        thread.start()
        port = listening.getsockname()[1]
        stream = Gateway(f"http://127.0.0.1:{port}").stream("/v1/pods/p/events", None, closed.is_set)
        assert next(stream).name == "status"
        closed.set()
        assert list(stream) == []
        thread.join(20)
        assert not thread.is_alive()


def test_a_home_that_nobody_owns_has_no_gateway(tmp_path: Path) -> None:
    assert reach(Home(tmp_path)) is None


def test_an_owner_that_does_not_answer_is_told_in_bounded_time(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ownership = home.own()
    assert ownership is not None
    with pytest.raises(CommandError, match=r"held by process \d+, but it has not said where it answers\n.*kill \d+"):
        reach(home, patience=0.2)
    ownership.close()


def test_an_owner_of_another_version_is_not_talked_to(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ownership = home.own()
    assert ownership is not None
    ownership.announce(Owner("http://127.0.0.1:1", "s", 77, version="9.9"))
    with pytest.raises(UsageError, match=r"owned by polypod 9\.9 \(process 77\)"):
        reach(home, patience=0.2)
    ownership.close()


def test_a_word_that_means_several_pods_is_refused_with_their_ids(fake: FakeGateway) -> None:
    fake.add(ROOT, name="a")
    fake.add(CHILD, name="a")
    reader = GatewayReader(Gateway(fake.address, SECRET))
    with pytest.raises(UsageError, match=f"may mean 2 Pods: {ROOT} \\(a\\), {CHILD} \\(a\\)"):
        find_pod(reader, "a")
    fake.set(ROOT, status="ended")
    assert find_pod(reader, "a")["id"] == CHILD, "one that has ended gives way"
    with pytest.raises(UsageError, match="there is no Pod 'b'"):
        find_pod(reader, "b")


def _answer(listener: socket.socket, data: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(data)
