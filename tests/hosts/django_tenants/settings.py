"""One schema per tenant. The webhooks of all tenants are in the shared schema."""

from common_settings import *

SHARED_APPS = ["django_tenants", "customers", *INSTALLED_APPS]
TENANT_APPS = ["django.contrib.contenttypes", "shop"]
INSTALLED_APPS = SHARED_APPS
TENANT_MODEL = "customers.Customer"
TENANT_DOMAIN_MODEL = "customers.Domain"

MIDDLEWARE = ["django_tenants.middleware.main.TenantMainMiddleware", *MIDDLEWARE]
DATABASES = {"default": postgresql() | {"ENGINE": "django_tenants.postgresql_backend"}}
DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
