from django.apps import AppConfig


class FilesConfig(AppConfig):
    name = "example_project.files"
