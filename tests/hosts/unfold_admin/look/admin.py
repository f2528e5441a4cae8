"""The console's classes combined with Unfold's, as its documentation recommends for other packages."""

from django.contrib import admin
from unfold.admin import ModelAdmin

from webhooks_app.admin import DeliveryAdmin, EventAdmin
from webhooks_app.models import Delivery, Event

admin.site.unregister([Delivery, Event])


@admin.register(Delivery)
class UnfoldDeliveryAdmin(DeliveryAdmin, ModelAdmin):
    pass


@admin.register(Event)
class UnfoldEventAdmin(EventAdmin, ModelAdmin):
    pass
