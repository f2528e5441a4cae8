from django.urls import include, path
from shop.views import pay

urlpatterns = [
    path("pay/", pay),
    path("v1/", include("webhooks_app.api.urls")),
]
