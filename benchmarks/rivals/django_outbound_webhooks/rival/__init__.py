"""A project with django-outbound-webhooks, configured according to its documentation."""
