"""The user of a request that an API key authenticates."""

from __future__ import annotations

from typing import Any, ClassVar

from ..models import ApiKey


class ApiKeyPrincipal:
    """``request.user`` of a request with an API key: the key itself, neither a user nor its owner.

    It has the attributes of users that Django and its middleware read, and no permissions.
    """

    is_authenticated: ClassVar[bool] = True
    is_active: ClassVar[bool] = True
    is_anonymous: ClassVar[bool] = False
    is_staff: ClassVar[bool] = False
    is_superuser: ClassVar[bool] = False

    def __init__(self, api_key: ApiKey) -> None:
        self.api_key = api_key

    @property
    def pk(self) -> str:
        return self.api_key.pk

    @property
    def owner(self) -> Any:
        return self.api_key.owner

    def get_username(self) -> str:
        return f"whk_{self.api_key.prefix}"

    def __str__(self) -> str:
        return self.get_username()

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        return False

    def has_perms(self, perm_list: Any, obj: Any = None) -> bool:
        return False

    def has_module_perms(self, app_label: str) -> bool:
        return False
