from backoffice.admin import site
from django.contrib import admin
from django.urls import include, path
from shop.views import pay

urlpatterns = [
    path("admin/", admin.site.urls),
    path("backoffice/", site.urls),
    path("pay/", pay),
    path("v1/", include("webhooks_app.api.urls")),
    path("webhooks/", include("webhooks_app.portal.urls")),
]
