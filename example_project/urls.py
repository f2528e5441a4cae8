"""URLs of the example project."""

from importlib.util import find_spec

from django.contrib import admin
from django.urls import include, path, re_path
from rest_framework.routers import SimpleRouter

from .accounts.pages import NewWebhookPage, PresentationsPage, SignUpPage
from .accounts.views import SubscriptionViewSet, UserViewSet
from .files.views import FileViewSet
from .presentations.views import PresentationViewSet
from .views import index, readme

router = SimpleRouter()
router.trailing_slash = "/?"
router.register("ppt", PresentationViewSet, basename="presentation")
router.register("files", FileViewSet, basename="file")
router.register("users", UserViewSet, basename="user")

subscription = SubscriptionViewSet.as_view({"post": "create", "get": "retrieve", "delete": "destroy"})

urlpatterns = [
    path("", index, name="index"),
    path("readme", readme, name="readme"),
    path("presentations", PresentationsPage.as_view(), name="presentations"),
    path("webhooks/<str:owner>/webhooks/new/", NewWebhookPage.as_view()),
    path("webhooks/", include("webhooks_app.portal.urls")),
    path("accounts/sign-up/", SignUpPage.as_view(), name="sign-up"),
    path("accounts/", include("django.contrib.auth.urls")),
    path("admin/", admin.site.urls),
    # Before the URLs of webhooks_app, which handle everything else below v1/.
    path("v1/", include(router.urls)),
    re_path("^v1/subscription/?$", subscription, name="subscription"),
    path("v1/", include("webhooks_app.api.urls")),
    path("health/", include("webhooks_app.probes.urls")),
    *([path("metrics", include("webhooks_app.metrics.urls"))] if find_spec("prometheus_client") else []),
]
