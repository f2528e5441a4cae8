import accounts
from asgiref.sync import sync_to_async
from django.contrib import admin
from django.db import transaction
from django.http import JsonResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt
from shop.views import record

from webhooks_app import aemit


@csrf_exempt
async def pay(request):
    if "decline" in request.POST:
        return await sync_to_async(transaction.atomic(record))(request)
    owner = await sync_to_async(accounts.owner)()
    event = await aemit("order.paid", {"order": request.POST["order"], "amount": 4200}, owner=owner)
    return JsonResponse({"event": event.id})


urlpatterns = [
    path("admin/", admin.site.urls),
    path("pay/", pay),
    path("v1/", include("webhooks_app.api.urls")),
    path("webhooks/", include("webhooks_app.portal.urls")),
]
