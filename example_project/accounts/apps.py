from django.apps import AppConfig


class AccountsConfig(AppConfig):
    name = "example_project.accounts"
