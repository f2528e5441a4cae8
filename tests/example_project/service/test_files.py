"""Upload, inspection and deletion of files, with their events."""

from __future__ import annotations

import hashlib
import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from pptx import Presentation as PowerPoint
from pypdf import PdfWriter

from example_project.files import inspection, tasks
from example_project.files.models import File


def _pdf(pages):
    writer, content = PdfWriter(), io.BytesIO()
    for _ in range(pages):
        writer.add_blank_page(100, 100)
    writer.write(content)
    return content.getvalue()


def _pptx(slides):
    presentation, content = PowerPoint(), io.BytesIO()
    for _ in range(slides):
        presentation.slides.add_slide(presentation.slide_layouts[0])
    presentation.save(content)
    return content.getvalue()


def _zip(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return content.getvalue()


def _upload(account, content=b"figures", name="figures.txt"):
    return account.post("/v1/files", {"file": SimpleUploadedFile(name, content)}, kind="multipart")


def test_an_upload_emits_an_event_at_once(amina):
    answer = _upload(amina, _pdf(1), "figures.pdf")

    assert answer.status_code == 201
    file = answer.json()
    assert amina.events() == [
        (
            "file.uploaded",
            {
                "file_id": file["id"],
                "user_id": amina.id,
                "filename": "figures.pdf",
                "content_type": "application/pdf",
                "size_bytes": len(_pdf(1)),
            },
        )
    ]


@pytest.mark.parametrize(
    ("name", "content", "pages"),
    [
        pytest.param("a.pdf", _pdf(3), 3, id="PDF"),
        pytest.param("a.PPTX", _pptx(2), 2, id="PowerPoint"),
        pytest.param("a.txt", b"one\ftwo\f", 2, id="text with form feeds"),
        pytest.param("a.md", b"# one", 1, id="Markdown"),
        pytest.param("a.txt", b" \n", 0, id="blank text"),
        pytest.param("a.png", b"\x89PNG", None, id="picture"),
        pytest.param("a.pdf", b"no PDF at all", None, id="broken PDF"),
        pytest.param("a.pdf", _pdf(3)[:200], None, id="half a PDF"),
        pytest.param("a.pptx", b"no archive", None, id="broken PowerPoint"),
        pytest.param("a.pptx", _zip(a="b"), None, id="another archive"),
        pytest.param("a.pptx", _zip(**{"[Content_Types].xml": "<a"}), None, id="broken XML"),
    ],
)
def test_the_processed_event_has_checksum_and_pages(amina, work, name, content, pages):
    file_id = _upload(amina, content, name).json()["id"]
    work()

    event_type, data = amina.events()[-1]
    assert event_type == "file.processed"
    assert data["sha256"] == hashlib.sha256(content).hexdigest()
    assert data.get("pages") == pages
    assert ("pages" in data) == (pages is not None)
    assert amina.get(f"/v1/files/{file_id}").json()["pages"] == pages


def test_a_decompression_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(inspection, "MAX_UNPACKED_BYTES", 1000)

    assert inspection.inspect(io.BytesIO(_pptx(1)), "a.pptx").pages is None


def test_a_deletion_removes_the_content_and_emits_one_event(amina, tmp_path, settings):
    settings.MEDIA_ROOT = tmp_path
    file_id = _upload(amina).json()["id"]

    answers = [amina.delete(f"/v1/files/{file_id}").status_code for _ in range(2)]

    assert answers == [204, 404]
    deleted = {"file_id": file_id, "user_id": amina.id, "filename": "figures.txt"}
    assert amina.events()[1:] == [("file.deleted", deleted)]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_deleted_before_processing_emits_no_processed_event(amina, work):
    file_id = _upload(amina).json()["id"]
    amina.delete(f"/v1/files/{file_id}")
    work()

    assert amina.event_types() == ["file.uploaded", "file.deleted"]


def test_a_file_is_processed_once_however_many_workers_try(amina):
    file = File.objects.get(pk=_upload(amina).json()["id"])
    found = inspection.Inspection(sha256="0" * 64, pages=None)

    assert [file.finish(found), File.objects.get(pk=file.pk).finish(found)] == [True, False]
    assert amina.event_types() == ["file.uploaded", "file.processed"]


def test_a_file_with_a_lost_task_is_processed_later(amina, work, monkeypatch):
    file_id = _upload(amina).json()["id"]
    monkeypatch.setattr(tasks, "LONG_WAIT", -tasks.LONG_WAIT)

    tasks.resume_files()
    work()

    assert amina.get(f"/v1/files/{file_id}").json()["status"] == "processed"


def test_another_account_can_neither_see_nor_delete_a_file(amina, make_account):
    bela, path = make_account("bela"), f"/v1/files/{_upload(amina).json()['id']}"

    assert [bela.get(path).status_code, bela.delete(path).status_code] == [404, 404]
    assert amina.get(path).status_code == 200


@pytest.mark.parametrize(
    "form",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"other": "text"}, id="another field"),
        pytest.param({"file": "text"}, id="no file"),
        pytest.param({"file": SimpleUploadedFile("a.txt", b"")}, id="empty"),
    ],
)
def test_an_invalid_upload_is_refused(amina, form):
    answer = amina.post("/v1/files", form, kind="multipart")

    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert "file" in answer.json()["errors"]


def test_json_is_refused_as_an_upload(amina):
    assert amina.post("/v1/files", {"file": "text"}).status_code == 415


@pytest.mark.parametrize("spare_bytes", [1, 100_000], ids=["just too long", "much too long"])
def test_a_file_over_the_limit_is_refused(amina, settings, spare_bytes):
    settings.MAX_UPLOAD_BYTES = 1000

    answer = _upload(amina, b"x" * (1000 + spare_bytes))

    assert answer.status_code == 413
    assert "1,000 bytes" in answer.json()["detail"]
    assert amina.events() == []


def test_a_long_file_name_is_shortened_before_its_extension(amina):
    name = _upload(amina, name=f"{'a' * 300}.txt").json()["filename"]

    assert len(name) == 255
    assert name.endswith("a.txt")


def test_a_path_in_a_file_name_is_removed(amina):
    assert _upload(amina, name="../../etc/passwd").json()["filename"] == "passwd"
