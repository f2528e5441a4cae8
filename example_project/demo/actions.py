"""Actions in the service, through its API, and the events that they cause."""

from __future__ import annotations

import io
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pptx import Presentation

from example_project.processes import PROJECT_DIR
from webhooks_app.receiver.local import Received

from .cast import Player
from .client import Client
from .narrator import Narrator

PATIENCE_SECONDS = 30.0
OUTLINE = PROJECT_DIR / "README.md"
NO_HEADINGS = "An outline without headings."
LONG_OUTLINE = "\n".join(f"# Page {number}\n\n- a point\n- another" for number in range(280))


class MissingEventError(Exception):
    """An event did not arrive in time."""


@dataclass(kw_only=True)
class Actions:
    """Performs actions one after the other and waits for the events of each."""

    client: Client
    narrator: Narrator
    steady: Player
    platform: Player
    expected: Counter[str] = field(default_factory=Counter)
    """Number of events of each type that the steady receiver must receive."""
    announced_pages: int = 0
    """Number of pages according to the event,"""
    downloaded_pages: int = -1
    """and in the downloaded file."""

    def upload_and_subscribe(self) -> None:
        """Cause the two events to which the stumbling and the refusing receiver are subscribed."""
        self.narrator.action(f"POST /v1/files: {OUTLINE.name}")
        file = self.client.upload("/v1/files", OUTLINE.name, OUTLINE.read_bytes())
        self.narrator.action("POST /v1/subscription: plan pro")
        self.client.post("/v1/subscription", {"plan": "pro"}, expect=201)
        self._expect("file.uploaded", "file.processed", "user.subscribed")
        self._await_event("file.processed", file["id"])
        self.narrator.action("DELETE /v1/files/…")
        self.client.delete(f"/v1/files/{file['id']}")
        self._expect("file.deleted")

    def register_user(self) -> None:
        """Register an account. Only the platform's webhook receives the event: a new account has no webhooks yet."""
        account = {"username": f"bela_{secrets.token_hex(3)}", "password": secrets.token_urlsafe(16)}
        self.narrator.action(f"POST /v1/users: {account['username']}")
        self.client.post("/v1/users", account, expect=201)
        self._wait(
            self.platform, lambda requests: any(r.type == "user.registered" for r in requests), "user.registered"
        )

    def make_presentation(self) -> str:
        """Create a presentation, download it from the URL in the event, and return its id."""
        outline = OUTLINE.read_text(encoding="utf-8")
        self.narrator.action(f"POST /v1/ppt: outline from {OUTLINE.name}")
        made = self.client.post("/v1/ppt", {"title": "About this project", "outline": outline})
        self._expect("ppt.generation.started", "ppt.generation.completed")
        data = self._await_event("ppt.generation.completed", made["id"]).message["data"]
        self.narrator.action(f"GET {data['download_url']}")
        content = self.client.download(data["download_url"])
        self.announced_pages = data["pages"]
        self.downloaded_pages = len(Presentation(io.BytesIO(content)).slides)
        self.narrator.result(f"a .pptx file of {len(content):,} bytes with {self.downloaded_pages} slides")
        return str(made["id"])

    def edit_presentation(self, presentation_id: str) -> None:
        """Edit a presentation, once successfully and once not."""
        self.narrator.action("POST /v1/ppt/…/edit: a new title")
        self.client.post(f"/v1/ppt/{presentation_id}/edit", {"title": "About this project, in short"})
        self._expect("ppt.edit.started", "ppt.edit.completed")
        self._await_event("ppt.edit.completed", presentation_id)
        self.narrator.action("POST /v1/ppt/…/edit: an outline without headings")
        self.client.post(f"/v1/ppt/{presentation_id}/edit", {"outline": NO_HEADINGS})
        self._expect("ppt.edit.started", "ppt.edit.failed")
        self._await_event("ppt.edit.failed", presentation_id)

    def fail_presentation(self) -> None:
        self.narrator.action("POST /v1/ppt: an outline without headings")
        made = self.client.post("/v1/ppt", {"title": "Nothing", "outline": NO_HEADINGS})
        self._expect("ppt.generation.started", "ppt.generation.failed")
        self._await_event("ppt.generation.failed", made["id"])

    def cancel_presentation(self) -> str:
        """Cancel a long generation and return its id."""
        self.narrator.action("POST /v1/ppt: an outline with 280 headings, followed by POST /v1/ppt/…/cancel")
        made = self.client.post("/v1/ppt", {"title": "Too long", "outline": LONG_OUTLINE})
        self.client.post(f"/v1/ppt/{made['id']}/cancel", expect=200)
        self._expect("ppt.generation.cancelled")
        self._await_event("ppt.generation.cancelled", made["id"])
        return str(made["id"])

    def unsubscribe(self) -> None:
        self.narrator.action("DELETE /v1/subscription")
        self.client.delete("/v1/subscription")
        self._expect("user.unsubscribed")
        self._await_event("user.unsubscribed")

    def await_event_with_id(self, event_id: str) -> None:
        self._wait(self.steady, lambda requests: any(r.event_id == event_id for r in requests), event_id)

    def _expect(self, *event_types: str) -> None:
        self.expected.update(event_types)

    def _await_event(self, event_type: str, subject: str = "") -> Received:
        """Wait for the event of this type that contains the subject, and return it."""

        def found(requests: Sequence[Received]) -> list[Received]:
            return [r for r in requests if r.type == event_type and subject in str(r.message.get("data"))]

        self._wait(self.steady, lambda requests: bool(found(requests)), event_type)
        return found(self.steady.receiver.received)[0]

    def _wait(self, player: Player, condition: Callable[[Sequence[Received]], bool], awaited: str) -> None:
        if not player.receiver.wait_until(condition, PATIENCE_SECONDS):
            raise MissingEventError(f"{awaited} did not reach {player.name} within {PATIENCE_SECONDS:.0f} s.")
