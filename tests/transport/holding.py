"""Many TLS requests that are open at once. The client and the receiver are processes of their own, for their limits.

The receiver answers none of the requests until all have arrived.
"""

from __future__ import annotations

import os
import resource
import socket
import ssl
import sys
import threading
from typing import Any

BODY = b'{"id": "evt_held"}'
ANSWER = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


def raise_limit() -> None:
    """Allow this process as many open files as possible."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def receive(certificate: str, count: int) -> None:
    """Write the port, accept the requests one after another, and answer them at the end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        _write(listening.getsockname()[1])
        held = [_requested(context, listening.accept()[0]) for _ in range(count)]
    for sock in held:
        sock.sendall(ANSWER)
    for sock in held:
        sock.close()


def _requested(context: ssl.SSLContext, sock: socket.socket) -> ssl.SSLSocket:
    """Return the connection with TLS after its request has arrived."""
    secured = context.wrap_socket(sock, server_side=True)
    received = b""
    while not received.endswith(BODY):
        received += secured.recv(65536)
    return secured


def send(bundle: str, port: int, count: int) -> None:
    """Start all requests, and write how many got the answer."""
    from .sending import post, transport

    sender = transport("native", ca_bundle=bundle, max_in_flight=2 * count)
    assert sender.capacity >= count, f"The limit of open files leaves {sender.capacity} requests."
    for _ in range(count):
        sender.start(post(f"https://127.0.0.1:{port}/", body=BODY, timeout_seconds=200.0))
    answered = 0
    while sender.in_flight:
        answered += sum(each.response is not None and each.response.status == 204 for each in sender.wait(10.0))
    sender.close()
    _write(answered)


def _write(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def in_thread(*arguments: Any) -> None:
    thread = threading.Thread(target=send, args=arguments)
    thread.start()
    thread.join()


def in_fork(*arguments: Any) -> None:
    if not (pid := os.fork()):
        send(*arguments)
        os._exit(0)
    os.waitpid(pid, 0)


def in_greenlet(*arguments: Any) -> None:
    import gevent

    gevent.spawn(send, *arguments).join()


PLACES = {"main": send, "thread": in_thread, "fork": in_fork, "gevent": in_greenlet}


if __name__ == "__main__":
    role, path, *numbers = sys.argv[1:]
    if role == "gevent":
        from gevent import monkey

        monkey.patch_all()
    raise_limit()
    if role == "receive":
        receive(path, int(numbers[0]))
    else:
        PLACES[role](path, *map(int, numbers))
