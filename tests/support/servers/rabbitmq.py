"""RabbitMQ, from Debian: a private node with a private name service (epmd)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import amqp

from .process import free_port, listens, program, server_directory
from .process import running as running_process

# The wrapper in /usr/sbin requires the account and the directories of the system's node.
PROGRAMS = "/usr/lib/rabbitmq/bin"


@contextmanager
def running() -> Generator[str]:
    """Yield the URL of a new RabbitMQ node."""
    Path(program("rabbitmq-server", package="rabbitmq-server"))
    server = Path(PROGRAMS, "rabbitmq-server")
    epmd = program("epmd", package="rabbitmq-server")
    with server_directory("rabbit") as directory:
        port, names_port = free_port(), free_port()
        environment = _environment(directory, port, names_port)
        names: list[str | Path] = [epmd, "-address", "127.0.0.1", "-port", str(names_port)]
        with (
            running_process(names, directory=directory, ready=lambda: listens(names_port)),
            running_process([server], directory=directory, ready=lambda: _answers(port), env=environment),
        ):
            yield f"amqp://guest:guest@127.0.0.1:{port}//"


def _environment(directory: Path, port: int, names_port: int) -> dict[str, str]:
    plugins = directory / "enabled_plugins"
    plugins.write_text("[].\n")
    return {
        "HOME": str(directory),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(names_port),
        "RABBITMQ_NODENAME": f"tests-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "rabbitmq-env.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_PID_FILE": str(directory / "pid"),
    }


def _answers(port: int) -> bool:
    try:
        with amqp.Connection(f"127.0.0.1:{port}", connect_timeout=2):
            return True
    except (OSError, amqp.AMQPError):  # a node that still starts refuses its virtual host
        return False
