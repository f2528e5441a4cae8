"""URLs of the customers' pages: ``path("webhooks/", include("webhooks_app.portal.urls"))``."""

from __future__ import annotations

from django.urls import include, path, re_path

from . import (
    actions,
    activity,
    api_keys,
    deliveries,
    event_types,
    links,
    mails,
    overview,
    replays,
    sharing,
    webhook_actions,
    webhooks,
)

app_name = "webhooks_portal"

account = [
    path("", overview.OverviewPage.as_view(), name="overview"),
    path("share/", sharing.SharePage.as_view(), name="share"),
    path("mails/", mails.MailsPage.as_view(), name="mails"),
    path("webhooks/", webhooks.WebhookListPage.as_view(), name="webhooks"),
    path("webhooks/new/", webhooks.NewWebhookPage.as_view(), name="webhook-new"),
    path("webhooks/<str:pk>/", webhooks.WebhookPage.as_view(), name="webhook"),
    path("webhooks/<str:pk>/settings/", webhooks.SettingsPage.as_view(), name="webhook-settings"),
    path("webhooks/<str:pk>/test/", webhook_actions.TestEventPage.as_view(), name="webhook-test"),
    path("webhooks/<str:pk>/rotate/", webhook_actions.RotationPage.as_view(), name="webhook-rotate"),
    path("webhooks/<str:pk>/recover/", replays.NewReplayPage.as_view(), name="replay-new"),
    path("webhooks/<str:pk>/code/", webhook_actions.VerificationPage.as_view(), name="webhook-code"),
    path("webhooks/<str:pk>/secret/<str:token>/", webhook_actions.SecretPage.as_view(), name="webhook-secret"),
    path("webhooks/<str:pk>/<str:action>/", actions.WebhookActionPage.as_view(), name="webhook-action"),
    path("deliveries/", deliveries.DeliveryListPage.as_view(), name="deliveries"),
    path("deliveries/<str:pk>/", deliveries.DeliveryPage.as_view(), name="delivery"),
    path("events/", deliveries.EventListPage.as_view(), name="events"),
    path("events/<str:pk>/", deliveries.EventPage.as_view(), name="event"),
    path("replays/<str:pk>/", replays.ReplayPage.as_view(), name="replay"),
    path("replays/<str:pk>/<str:action>/", actions.ReplayStepPage.as_view(), name="replay-step"),
    path("event-types/", event_types.EventTypeListPage.as_view(), name="event-types"),
    path("event-types/<str:name>/", event_types.EventTypePage.as_view(), name="event-type"),
    path("activity/", activity.ActivityPage.as_view(), name="activity"),
    path("api-keys/", api_keys.ApiKeyListPage.as_view(), name="keys"),
    path("api-keys/new/", api_keys.NewApiKeyPage.as_view(), name="key-new"),
    path("api-keys/<str:pk>/secret/<str:token>/", api_keys.ApiKeySecretPage.as_view(), name="key-secret"),
    path("api-keys/<str:pk>/revoke/", actions.RevocationPage.as_view(), name="key-revoke"),
]

urlpatterns = [
    path("", overview.AccountsPage.as_view(), name="accounts"),
    re_path(r"^link/(?P<token>lnk_[0-9a-f]{32}:[\w-]{43})/$", links.LinkPage.as_view(), name="link"),
    re_path(r"^link/(?P<token>[\s\S]*lnk_[\s\S]*)$", links.LinkPage.as_view(), name="link-damaged"),
    path("link/end/", links.EndPage.as_view(), name="link-end"),
    path("<str:owner>/", include(account)),
]
