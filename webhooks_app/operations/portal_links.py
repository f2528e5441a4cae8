"""Creating, opening and revoking links to the customers' pages, and what the visitor of a link may do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_urlsafe
from typing import Any
from urllib.parse import unquote

from django.db import router
from django.urls import Resolver404, get_script_prefix, resolve, reverse
from django.utils import timezone

from ..database.sql import current, writing
from ..encryption import Masked
from ..models import PortalLink
from ..models.audit import Action, Via, acting
from ..models.portal_link import SESSION_AGE, digest_of
from ..owners import Access, BaseOwners, owners
from .actors import PROJECT, BaseActor, Member, access_of
from .rights import CREATE_LINK, FORGET_OWNER, rights_within

__all__ = ["LinkSession", "create_link", "open_link", "path_of", "revoke_links", "session_of"]

MAX_AGE = timedelta(days=7)
"""The longest time in which a link can be opened."""

LINKS_AT_A_TIME = 500
MAX_PATH = 200

RIGHTS = tuple(str(access.name).lower() for access in Access)


@dataclass(frozen=True, kw_only=True)
class LinkSession:
    """An opened link, with what its visitor may do now."""

    link: PortalLink
    access: Access

    @property
    def owner(self) -> Any:
        return self.link.owner

    @property
    def actor(self) -> Member:
        user = self.link.user
        name = "" if user is not None else f"link {self.link.pk}"
        return Member(account=user, name=name, owner=self.owner, access=self.access, via=Via.LINK)


def create_link(
    owner: Any,
    *,
    actor: BaseActor = PROJECT,
    user: Any = None,
    rights: Iterable[str] = ("read",),
    expires: timedelta,
    page: str = "",
) -> PortalLink:
    """Create a link to a page of an owner. Links of the project's own code are not audited before they are opened.

    The actor needs every right that the link gives. Raise AccessDeniedError, InvalidOwnerError for an unsaved owner,
    and ValueError for an unknown right, another age or a page that does not exist.
    """
    BaseOwners.check(owners(), owner)
    given = list(rights)
    if not is_page(owner, page):
        raise ValueError(
            f"{page[:100]!r} is not the path of a page with the owner in its URL. "
            "Pass the part after the overview: 'deliveries/'."
        )
    if unknown := [name for name in given if name not in RIGHTS]:
        raise ValueError(f"{unknown[0]!r} is not a right. Pass a list of: {', '.join(RIGHTS)}.")
    if not timedelta(0) < expires <= MAX_AGE:
        raise ValueError(f"expires is {expires}, but must be positive, and at most {MAX_AGE.days} days.")
    fields = {
        "owner": owner,
        "user": user,
        "rights": [name for name in RIGHTS if name in ("read", *given)],
        "path": page,
    }
    for right in (CREATE_LINK, *rights_within(PortalLink(**fields).access)):
        actor.require(right, owner.pk)
    with acting(actor), writing(router.db_for_write(PortalLink), PortalLink):
        link = PortalLink.create(expires=expires, **fields)
        if actor.via != Via.CODE:  # which creates one for each page with a frame
            link.audit(Action.LINK_CREATED, {"rights": [None, link.rights]})
    return link


def path_of(link: PortalLink) -> str:
    """Return the path of a link's page. Raise NoReverseMatch without the customers' pages in the URLs."""
    return reverse("webhooks_portal:link", args=(link.text,))


def is_page(owner: Any, page: str) -> bool:
    """Return True if this is the path of a page below the overview of an owner, with or without a query."""
    path = unquote(page.partition("?")[0])
    if len(page) > MAX_PATH or ".." in path or not (page + path).isprintable():
        return False
    overview = unquote(reverse("webhooks_portal:overview", args=(owner.pk,)))
    try:
        found = resolve(f"/{overview.removeprefix(get_script_prefix())}{path}")
    except Resolver404:
        return False
    return str(found.kwargs.get("owner")) == str(owner.pk)  # also a page of the project's own, outside the namespace


def open_link(link: PortalLink, *, is_framed: bool) -> Masked | None:
    """Begin the session of a link and return its text; None if the link was opened before, or has expired.

    Of two requests at the same moment, the database lets one change the row.
    """
    text, now = Masked(token_urlsafe(32)), timezone.now()
    unopened = PortalLink.objects.using(link.alias).filter(pk=link.pk, digest=None, expires_at__gt=now)
    ends_at = now + SESSION_AGE
    with acting(_session(link).actor), writing(link.alias, PortalLink):
        if not unopened.update(opened_at=now, expires_at=ends_at, digest=digest_of(text), is_framed=is_framed):
            return None
        link.audit(Action.LINK_OPENED, {"rights": [None, list(link.rights)]})
    return text


def session_of(text: str) -> LinkSession | None:
    """Return the session with this text, with the present rights of its user; None if there are none left."""
    link = PortalLink.objects.with_session(text)
    return None if link is None else usable(link)


def usable(link: PortalLink) -> LinkSession | None:
    """Return a link with what its visitor may do now; None if they may see nothing."""
    session = _session(link)
    return session if Access.READ in session.access else None


def revoke_links(owner: Any = None, user: Any = None, *, actor: BaseActor = PROJECT) -> int:
    """End all links and their sessions, or only those of an owner, a user or both. Return their number."""
    using = router.db_for_write(PortalLink)
    rows = PortalLink.objects.using(using)
    wanted = {name: each for name, each in {"owner": owner, "user": user}.items() if each is not None}
    number = 0
    with acting(actor), writing(using, PortalLink):
        while links := list(rows.filter(**wanted).select_for_update().order_by("pk")[:LINKS_AT_A_TIME]):
            for link in links:
                actor.require(FORGET_OWNER, link.owner_id)
                if link.opened_at:
                    link.audit(Action.LINK_REVOKED)
            number += rows.filter(pk__in=[link.pk for link in links]).delete()[0]
    return number


def end(session: LinkSession) -> None:
    """End a session, as its visitor."""
    with acting(session.actor), writing(session.link.alias, PortalLink):
        session.link.audit(Action.LINK_REVOKED)
        PortalLink.objects.using(session.link.alias).filter(pk=session.link.pk).delete()


def _session(link: PortalLink) -> LinkSession:
    return LinkSession(link=link, access=link.access & _limit(link))


def _limit(link: PortalLink) -> Access:
    """Return what the owner policy permits the visitor of a link at present."""
    if not owners().is_active(link.owner):
        return Access(0)
    if link.user_id is None:
        return Access.ALL
    if link.user is None or not getattr(link.user, "is_active", True):
        return Access(0)
    found = list(current(owners().visible_to(link.user)).filter(pk=link.owner_id))
    return access_of(link.user, found).get(link.owner_id, Access(0))
