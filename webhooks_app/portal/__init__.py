"""Pages where customers manage their own webhooks: ``path("webhooks/", include("webhooks_app.portal.urls"))``.

The pages are thin layers over the operations, as the REST API is. A host restyles them by templates of the same names,
and changes them by subclasses of the views.
"""
