import accounts
from django.db import transaction
from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt

from webhooks_app import emit


class CardDeclined(Exception):
    pass


def record(request):
    """Emit the event of an order, and then fail if the request requires it."""
    event = emit("order.paid", {"order": request.POST["order"], "amount": 4200}, owner=accounts.owner())
    if "decline" in request.POST:
        raise CardDeclined
    return JsonResponse({"event": event.id})


pay = csrf_exempt(transaction.atomic(record))
