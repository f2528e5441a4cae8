"""Presentations from outline to PowerPoint file, with their events."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError
from pptx import Presentation as PowerPoint

from example_project.presentations import tasks
from example_project.presentations.models import Presentation, WorkEndedError
from webhooks_app.emission import emitting

OUTLINE = "# Figures\n\n- more\n- less\n\n# Outlook\n\nGood."


def _make(account, outline=OUTLINE, title="Annual report"):
    return account.post("/v1/ppt", {"title": title, "outline": outline}).json()["id"]


def _slides(answer):
    return PowerPoint(io.BytesIO(b"".join(answer.streaming_content))).slides


def test_a_presentation_is_queued_and_generated_by_a_worker(amina, work):
    answer = amina.post("/v1/ppt", {"title": "Annual report", "outline": OUTLINE})
    work()

    assert answer.status_code == 202
    assert answer.json()["status"] == "queued"
    shown = amina.get(answer["Location"]).json()
    assert (shown["status"], shown["pages"], shown["cost"]) == ("completed", 3, 3)


def test_a_generation_emits_started_and_completed(amina, work):
    ppt_id = _make(amina)
    work()

    (started, started_data), (completed, data) = amina.events()
    assert started == "ppt.generation.started"
    assert started_data == {"ppt_id": ppt_id, "user_id": amina.id, "title": "Annual report"}
    assert completed == "ppt.generation.completed"
    assert data.pop("generation_time") >= 0
    assert data == {
        **started_data,
        "pages": 3,
        "cost": 3,
        "download_url": f"https://service.example/v1/ppt/{ppt_id}/download",
    }


def test_the_owner_can_download_from_the_url_in_the_event(amina, work):
    ppt_id = _make(amina)
    work()

    answer = amina.get(f"/v1/ppt/{ppt_id}/download", headers={"Accept": "application/octet-stream"})

    slides = _slides(answer)
    assert [slide.shapes.title.text for slide in slides] == ["Annual report", "Figures", "Outlook"]
    assert answer["Content-Disposition"] == 'attachment; filename="Annual report.pptx"'


@pytest.mark.parametrize("path", ["", "/download"])
def test_another_account_finds_nothing(amina, make_account, work, path):
    ppt_id = _make(amina)
    work()

    assert make_account("bela").get(f"/v1/ppt/{ppt_id}{path}").status_code == 404


def test_an_unfinished_presentation_cannot_be_downloaded(amina):
    answer = amina.get(f"/v1/ppt/{_make(amina)}/download")

    assert answer.status_code == 409
    assert answer["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("outline", "reason"),
    [
        pytest.param("Only text.", "no headings", id="no headings"),
        pytest.param("# one\n" * 400, "401 pages", id="too many pages"),
    ],
)
def test_an_invalid_outline_fails_with_the_reason(amina, work, outline, reason):
    ppt_id = _make(amina, outline)
    work()

    event_type, data = amina.events()[-1]
    assert event_type == "ppt.generation.failed"
    assert reason in data["error"]
    assert data["ppt_id"] == ppt_id
    assert amina.get(f"/v1/ppt/{ppt_id}").json()["error"] == data["error"]


def test_an_internal_error_is_reported_without_details(amina, work, monkeypatch):
    monkeypatch.setattr(tasks, "make_deck", lambda *args, **kwargs: 1 / 0)
    _make(amina)

    with pytest.raises(ZeroDivisionError):
        work()

    event_type, data = amina.events()[-1]
    assert event_type == "ppt.generation.failed"
    assert "division" not in data["error"]


def test_a_cancelled_queued_generation_does_not_run(amina, work):
    ppt_id = _make(amina)

    answer = amina.post(f"/v1/ppt/{ppt_id}/cancel")
    work()

    assert answer.json()["status"] == "cancelled"
    assert amina.events() == [
        ("ppt.generation.cancelled", {"ppt_id": ppt_id, "user_id": amina.id, "title": "Annual report"})
    ]


def test_a_running_generation_stops_when_cancelled(amina, work, monkeypatch):
    ppt_id = _make(amina)
    pages_made = []

    def cancel_at_the_second_page(presentation):
        pages_made.append(1)
        if len(pages_made) == 2:
            Presentation.objects.get(pk=presentation.pk).cancel()
        require_work(presentation)

    require_work = Presentation.require_work
    monkeypatch.setattr(Presentation, "require_work", cancel_at_the_second_page)
    work()

    assert amina.event_types() == ["ppt.generation.started", "ppt.generation.cancelled"]
    assert amina.get(f"/v1/ppt/{ppt_id}").json()["download_url"] is None


def test_a_late_cancellation_leaves_no_file(amina, tmp_path, settings):
    settings.MEDIA_ROOT = tmp_path
    presentation = Presentation.objects.get(pk=_make(amina))
    presentation.begin()
    Presentation.objects.get(pk=presentation.pk).cancel()

    with pytest.raises(WorkEndedError):
        presentation.complete(tasks.make_deck("Title", []), seconds=1)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert "ppt.generation.completed" not in amina.event_types()


def test_a_completed_presentation_cannot_be_cancelled(amina, work):
    ppt_id = _make(amina)
    work()

    answer = amina.post(f"/v1/ppt/{ppt_id}/cancel")

    assert answer.status_code == 409
    assert "completed" in answer.json()["detail"]
    assert "ppt.generation.cancelled" not in amina.event_types()


def test_two_workers_generate_a_presentation_once(amina):
    ppt_id = _make(amina)

    tasks.make_presentation(ppt_id)
    tasks.make_presentation(ppt_id)

    assert amina.event_types() == ["ppt.generation.started", "ppt.generation.completed"]


def test_an_edit_replaces_title_outline_and_file(amina, work):
    ppt_id = _make(amina)
    work()

    answer = amina.post(f"/v1/ppt/{ppt_id}/edit", {"title": "In short", "outline": "# Only one"})
    work()

    assert answer.status_code == 202
    (started, _), (completed, data) = amina.events()[2:]
    assert (started, completed) == ("ppt.edit.started", "ppt.edit.completed")
    assert (data["ppt_id"], data["title"], data["pages"]) == (ppt_id, "In short", 2)
    assert len(_slides(amina.get(f"/v1/ppt/{ppt_id}/download"))) == 2


def test_a_failed_edit_leaves_the_presentation_unchanged(amina, work):
    ppt_id = _make(amina)
    work()

    amina.post(f"/v1/ppt/{ppt_id}/edit", {"outline": "Only text."})
    work()

    event_type, data = amina.events()[-1]
    assert event_type == "ppt.edit.failed"
    assert (data["ppt_id"], data["user_id"]) == (ppt_id, amina.id)
    shown = amina.get(f"/v1/ppt/{ppt_id}").json()
    assert (shown["status"], shown["pages"], shown["error"]) == ("completed", 3, data["error"])
    assert len(_slides(amina.get(f"/v1/ppt/{ppt_id}/download"))) == 3


@pytest.mark.parametrize(
    ("content", "field"),
    [
        pytest.param({"outline": "# A"}, "title", id="no title"),
        pytest.param({"title": "A"}, "outline", id="no outline"),
        pytest.param({"title": "A" * 201, "outline": "# A"}, "title", id="title too long"),
        pytest.param({"title": "A", "outline": "x" * 200_001}, "outline", id="outline too long"),
        pytest.param({"title": "A\x00", "outline": "# A"}, "title", id="NUL"),
        pytest.param({"title": ["A"], "outline": "# A"}, "title", id="no string"),
    ],
)
def test_an_invalid_request_names_the_field(amina, content, field):
    answer = amina.post("/v1/ppt", content)

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert field in answer.json()["errors"]


def test_requests_need_a_key(client):
    answer = client.post("/v1/ppt", {"title": "A", "outline": "# A"}, content_type="application/json")

    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"


def test_requests_succeed_without_a_broker(amina, monkeypatch):
    def refuse(*args, **kwargs):
        raise OperationalError("connection refused")

    monkeypatch.setattr(tasks.make_presentation, "apply_async", refuse)

    assert amina.post("/v1/ppt", {"title": "Annual report", "outline": OUTLINE}).status_code == 202


def test_a_presentation_with_a_lost_task_is_generated_later(amina, work):
    ppt_id = _make(amina)
    Presentation.objects.filter(pk=ppt_id).update(requested_at=timezone.now() - timedelta(minutes=1))

    tasks.resume_presentations()
    work()

    assert amina.get(f"/v1/ppt/{ppt_id}").json()["status"] == "completed"


def test_abandoned_work_is_reported_as_failed(amina):
    presentation = Presentation.objects.get(pk=_make(amina))
    presentation.begin()
    Presentation.objects.update(started_at=timezone.now() - timedelta(hours=1))

    tasks.resume_presentations()

    assert amina.event_types() == ["ppt.generation.started", "ppt.generation.failed"]


def test_a_rolled_back_change_emits_nothing(amina, monkeypatch):
    presentation = Presentation.objects.get(pk=_make(amina))

    def refuse(*args, **kwargs):
        raise RuntimeError("the events cannot be written")

    monkeypatch.setattr(emitting, "insert_event", refuse)
    with pytest.raises(RuntimeError):
        presentation.cancel()

    presentation.refresh_from_db()
    assert presentation.status == "queued"
