from django.apps import apps
from django.contrib import admin

from webhooks_app import admin as console


class Backoffice(admin.AdminSite):
    site_header = "Back office"


site = Backoffice(name="backoffice")

for model in apps.get_app_config("webhooks_app").get_models():
    if admin.site.is_registered(model):
        site.register(model, type(admin.site.get_model_admin(model)))

assert console
