"""A message broker in a folder, for development without Redis or RabbitMQ."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import filesystem
from kombu.utils.json import dumps, loads


def transport_options(folder: Path) -> dict[str, Any]:
    """Return Celery's ``broker_transport_options`` and create the folders."""
    options = {
        "data_folder_in": folder / "messages",
        "data_folder_out": folder / "messages",
        "processed_folder": folder / "taken",
        "control_folder": folder / "control",
    }
    for path in options.values():
        path.mkdir(parents=True, exist_ok=True)
    return {**{name: str(path) for name, path in options.items()}, "polling_interval": 0.05}


class Channel(filesystem.Channel):
    """Writes messages atomically. Kombu's own channel lets readers see partial messages."""

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:  # type: ignore[override]
        name = f"{time.time_ns():020d}_{uuid.uuid4().hex}.{queue}.msg"
        draft = Path(self.processed_folder, name)
        draft.write_text(dumps(payload))
        draft.rename(Path(self.data_folder_out, name))

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        for path in sorted(Path(self.data_folder_in).glob(f"*.{queue}.msg")):
            taken = Path(self.processed_folder, path.name)
            try:
                path.rename(taken)
            except FileNotFoundError:
                continue  # Another worker was faster.
            text = taken.read_text()
            taken.unlink()
            try:
                return loads(text)
            except json.JSONDecodeError:
                continue  # A message without a sender cannot be returned.
        raise Empty


class Transport(filesystem.Transport):
    Channel = Channel
