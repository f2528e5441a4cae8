"""The broker in a folder."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from queue import Empty

import pytest
from kombu import Connection

from example_project.broker import transport_options


@pytest.fixture
def connect(tmp_path):
    options = transport_options(tmp_path)
    connections = []

    def connect():
        connections.append(
            Connection(
                "filesystem://localhost", transport="example_project.broker:Transport", transport_options=options
            )
        )
        return connections[-1]

    yield connect
    for connection in connections:
        connection.release()


@pytest.fixture
def name():
    """A unique name, because kombu remembers bound queues per process, independently of the folder."""
    return f"queue-{uuid.uuid4().hex}"


def test_messages_arrive_once_and_in_order(connect, name):
    sender, receiver = connect().SimpleQueue(name), connect().SimpleQueue(name)
    for number in range(3):
        sender.put({"number": number})

    received = [receiver.get(timeout=30).payload["number"] for _ in range(3)]

    assert received == [0, 1, 2]
    with pytest.raises(Empty):
        receiver.get(timeout=0.2)


def test_messages_outlive_the_process_that_sent_them(connect, name):
    sender = connect()
    sender.SimpleQueue(name).put("kept")
    sender.release()

    assert connect().SimpleQueue(name).get(timeout=30).payload == "kept"


def test_each_message_goes_to_one_reader(connect, name, tmp_path):
    sender, received, lock = connect().SimpleQueue(name), Counter(), threading.Lock()

    def read(queue):
        while received.total() < 100:
            try:
                message = queue.get(timeout=1)
            except Empty:
                continue
            message.ack()
            with lock:
                received[message.payload] += 1

    readers = [threading.Thread(target=read, args=(connect().SimpleQueue(name),)) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(100):
        sender.put(number)
    for reader in readers:
        reader.join()

    assert received == Counter(range(100))
    assert list((tmp_path / "messages").iterdir()) == list((tmp_path / "taken").iterdir()) == []


def test_an_invalid_message_file_is_moved_away(connect, name, tmp_path):
    (tmp_path / "messages" / f"0.{name}.msg").write_text("half a mess")
    queue = connect().SimpleQueue(name)
    queue.put("whole")

    assert queue.get(timeout=30).payload == "whole"
    assert list((tmp_path / "messages").iterdir()) == []
