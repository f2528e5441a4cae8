"""The permissions that Django's forms of groups and users offer."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission

FOR_PEOPLE = {
    *("add_apikey", "change_apikey", "delete_apikey", "view_apikey"),
    *("add_webhook", "change_webhook", "delete_webhook", "view_webhook"),
    *("view_delivery", "view_replay", "view_auditentry"),
    *("view_event", "add_event"),
    *("view_problem", "change_problem"),
    "add_portallink",
}


@pytest.mark.django_db
def test_only_permissions_of_what_people_see_are_offered() -> None:
    own = {
        codename
        for model in apps.get_app_config("webhooks_app").get_models()
        for codename, _name in model._meta.permissions
    }
    offered = set(Permission.objects.filter(content_type__app_label="webhooks_app").values_list("codename", flat=True))

    assert offered == FOR_PEOPLE | own
