from django.contrib import admin
from django.db import transaction
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from shop.views import record

urlpatterns = [
    path("admin/", admin.site.urls),
    path("pay/", csrf_exempt(transaction.atomic(using="primary")(record))),
    path("v1/", include("webhooks_app.api.urls")),
    path("webhooks/", include("webhooks_app.portal.urls")),
]
