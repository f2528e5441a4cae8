"""The area of customers: sign-up, and presentations made by a form. Their webhooks are pages of ``webhooks_app``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.contrib.auth import get_user_model, login
from django.contrib.auth.forms import BaseUserCreationForm
from django.contrib.auth.mixins import LoginRequiredMixin
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse_lazy
from django.utils.translation import gettext_lazy as _
from django.views.generic import CreateView

from webhooks_app.portal import webhooks as portal

from ..api import PresentationThrottle, RegistrationThrottle
from ..background import work_soon
from ..presentations.models import Presentation
from ..presentations.serializers import MAX_OUTLINE_LENGTH
from ..presentations.tasks import make_presentation
from ..receiver import url_of

SHOWN = 10

RECEIVER = _(
    "The URL is that of the demonstration's receiver, which you need not start. It shows you what it receives. Replace "
    "the URL if you have a receiver of your own."
)

if TYPE_CHECKING:
    BaseCreateView = CreateView[Any, Any]
    BaseForm = forms.ModelForm[Presentation]
    BaseSignUpForm = BaseUserCreationForm[Any]
else:
    BaseCreateView = CreateView
    BaseForm = forms.ModelForm
    BaseSignUpForm = BaseUserCreationForm


class SignUpForm(BaseSignUpForm):
    class Meta:
        model = get_user_model()
        fields = ("username", "email")


class LimitedPage(BaseCreateView):
    """A form that may be sent only so often."""

    throttle_class: Any

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not self.throttle_class().allow_request(request, self):
            return HttpResponse("Too many requests. Try again in a minute.", status=429, content_type="text/plain")
        return super().post(request, *args, **kwargs)


class SignUpPage(LimitedPage):
    """The form for a new account, which is then logged in."""

    throttle_class = RegistrationThrottle
    form_class = SignUpForm
    template_name = "registration/sign_up.html"
    success_url = reverse_lazy("webhooks_portal:accounts")

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        login(self.request, form.instance)
        return response


class NewWebhookPage(portal.NewWebhookPage):
    """The form for a new webhook, which suggests the demonstration's receiver."""

    def get_initial(self) -> dict[str, Any]:
        url = url_of(self.owner)
        return {**super().get_initial(), **({"url": url} if url else {})}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        intro = RECEIVER if url_of(self.owner) else ""
        return super().get_context_data(intro=intro, **kwargs)


class PresentationForm(BaseForm):
    outline = forms.CharField(max_length=MAX_OUTLINE_LENGTH, strip=False, widget=forms.Textarea)

    class Meta:
        model = Presentation
        fields = ("title", "outline")


class PresentationsPage(LoginRequiredMixin, LimitedPage):
    """The latest presentations of the account, and a form for another one."""

    throttle_class = PresentationThrottle
    form_class = PresentationForm
    template_name = "example_project/presentations.html"
    success_url = reverse_lazy("presentations")
    initial = {"title": "Hello", "outline": "# One\n- a point"}  # noqa: RUF012

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        latest = Presentation.objects.owned_by(self.request.user).order_by("-created_at")[:SHOWN]
        return super().get_context_data(latest=latest, **kwargs)

    @transaction.atomic
    def form_valid(self, form: Any) -> HttpResponse:
        form.instance.owner = self.request.user
        response = super().form_valid(form)
        work_soon(make_presentation, form.instance)
        messages.success(self.request, _("The presentation is being made. Its events are sent to your webhooks."))
        return response
