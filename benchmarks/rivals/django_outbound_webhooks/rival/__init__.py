"""A project that sends its webhooks with django-outbound-webhooks, set up as its documentation says."""
