"""The models of the webhooks: one for each half of them."""

from __future__ import annotations

from django.db import models


class FirstOrder(models.Model):
    text = models.TextField()

    def __str__(self) -> str:
        return self.text


class SecondOrder(models.Model):
    text = models.TextField()

    def __str__(self) -> str:
        return self.text
