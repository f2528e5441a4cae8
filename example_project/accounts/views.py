"""``/v1/users`` and ``/v1/subscription``"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as DjangoValidationError
from django.db import IntegrityError, transaction
from rest_framework import serializers, status
from rest_framework.exceptions import NotFound
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from webhooks_app.api.errors import Conflict

from ..api import RegistrationThrottle, ServiceViewSet
from .models import Subscription, public_id

User = get_user_model()


class RegistrationSerializer(serializers.ModelSerializer[Any]):
    class Meta:
        model = User
        fields = ("username", "email", "password")
        extra_kwargs: ClassVar[Any] = {"password": {"write_only": True}}

    def validate(self, attrs: Any) -> Any:
        try:
            validate_password(attrs["password"], User(username=attrs["username"], email=attrs.get("email", "")))
        except DjangoValidationError as error:
            raise serializers.ValidationError({"password": error.messages}) from None
        return attrs

    def create(self, validated_data: Any) -> Any:
        return User.objects.create_user(**validated_data)


class UserViewSet(ServiceViewSet):
    queryset = User.objects.all()
    serializer_class = RegistrationSerializer
    authentication_classes: Sequence[Any] = ()
    permission_classes: Sequence[Any] = (AllowAny,)
    throttle_classes: Sequence[Any] = (RegistrationThrottle,)

    @transaction.atomic
    def create(self, request: Request) -> Response:
        """Register an account."""
        serializer = RegistrationSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        user = serializer.save()
        return Response({"id": public_id(user), "username": user.get_username()}, status=status.HTTP_201_CREATED)


class SubscriptionSerializer(serializers.ModelSerializer[Subscription]):
    created = serializers.DateTimeField(source="created_at", read_only=True)

    class Meta:
        model = Subscription
        fields = ("plan", "created")


class SubscriptionViewSet(ServiceViewSet):
    """The subscription of the requesting account."""

    queryset = Subscription.objects.all()
    serializer_class = SubscriptionSerializer

    def create(self, request: Request) -> Response:
        """Subscribe to a plan."""
        serializer = SubscriptionSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        try:
            subscription = Subscription.objects.subscribe(self.owner, serializer.validated_data["plan"])
        except IntegrityError:
            raise Conflict("This account is already subscribed. Unsubscribe first to change the plan.") from None
        return Response(SubscriptionSerializer(subscription).data, status=status.HTTP_201_CREATED)

    def retrieve(self, request: Request) -> Response:
        """Show the subscription."""
        return Response(SubscriptionSerializer(self._subscription()).data)

    def destroy(self, request: Request) -> Response:
        """Unsubscribe."""
        self._subscription().end()
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _subscription(self) -> Subscription:
        subscription = Subscription.objects.filter(user=self.owner).first()
        if subscription is None:
            raise NotFound
        return subscription
