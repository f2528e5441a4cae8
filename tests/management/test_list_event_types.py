"""``list_event_types``"""

from __future__ import annotations

from collections.abc import Callable

from webhooks_app.event_types import registry

from .conftest import Output


def test_every_event_type_is_listed_with_its_fields(run: Callable[..., Output]) -> None:
    output = run("list_event_types").stdout

    for event_type in registry:
        assert f"  {event_type.name}  {event_type.description}\n" in output
    assert "error, [ppt_id], [user_id]" in output
