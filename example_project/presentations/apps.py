from django.apps import AppConfig


class PresentationsConfig(AppConfig):
    name = "example_project.presentations"
