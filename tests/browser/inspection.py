"""Inspection of pages: errors, overflow, and accessibility."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from .conftest import Console, Login

GRAVE = ("serious", "critical")

OF_DJANGO = (
    ("label-title-only", "#searchbar"),
    ("link-in-text-block", ".breadcrumbs"),
    ("link-in-text-block", "a:nth-child(3)"),  # an alternative selector for one of those links
    ("link-in-text-block", 'a[href="?"]'),
)
"""Findings in Django's own parts of a page: the rule and a part of the selector."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A combination of theme and width."""

    theme: str
    width: int
    height: int
    axe_rules: Sequence[str] = ()
    """The rules to check; empty for all."""


LOOKS = (
    Look(theme="light", width=1440, height=900),
    Look(theme="dark", width=390, height=844, axe_rules=("color-contrast",)),
)
"""Colours depend only on the theme and positions only on the width, so that two looks are enough."""


@contextmanager
def looking(
    browser: Browser, login: Login, look: Look, *, with_javascript: bool = True
) -> Iterator[tuple[Page, list[str]]]:
    """Yield a page in the console and a list of its errors, such as violations of the Content-Security-Policy."""
    context = browser.new_context(
        color_scheme=look.theme,  # type: ignore[arg-type]
        viewport={"width": look.width, "height": look.height},
        reduced_motion="reduce",
        java_script_enabled=with_javascript,
    )
    context.add_cookies([login.cookie])  # type: ignore[list-item]
    context.route("**/favicon.ico", lambda route: route.fulfill(status=204))
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    yield page, problems
    context.close()


def inspect(
    browser: Browser, console: Console, name: str, path: str, then: Callable[[Page], Any] = lambda page: None
) -> list[str]:
    """Open a path in each look and return the problems of the page."""
    found = []
    for look in LOOKS:
        with looking(browser, console, look) as (page, problems):
            response = page.goto(console.address + path)
            assert response is not None
            assert response.status == 200, path
            then(page)
            keep_picture(page, f"{name} {look.width} {look.theme}")
            found += [f"{look.theme} {look.width}: {each}" for each in (*problems, *problems_of(page, look))]
    return found


def keep_picture(page: Page, name: str) -> None:
    """Write a screenshot into the directory $SCREENSHOTS, if the variable is set."""
    if directory := os.environ.get("SCREENSHOTS"):
        path = Path(directory) / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.png"
        page.screenshot(path=path, full_page=True)


def problems_of(page: Page, look: Look) -> list[str]:
    """Return what is cut off on a page, and the serious findings of axe."""
    return [*overflow(page), *_grave(page, look)]


NARROW = 640
"""The largest width of a narrow screen, in pixels."""

CUT_OFF = """
(NARROW) => {
    const isHidden = (element) => {
        const style = getComputedStyle(element), box = element.getBoundingClientRect();
        const isInvisible = style.visibility === "hidden" || box.width <= 1 || box.height <= 1;
        return isInvisible || element.closest("[aria-hidden=true]");
    };
    const right = document.documentElement.clientWidth;
    const found = [];
    const say = (element, width, room) => {
        const name = element.tagName.toLowerCase() + (element.id ? "#" + element.id : "")
            + [...element.classList].map((each) => "." + each).join("");
        found.push(`${name} is ${width} pixels wide, where there is room for ${room}`);
    };
    if (document.documentElement.scrollWidth > right)
        say(document.documentElement, document.documentElement.scrollWidth, right);
    for (const element of document.body.querySelectorAll("*")) {
        if (element.closest("svg, select, template, script, style") || isHidden(element)) continue;
        if (element.matches("input, textarea") || element.scrollWidth <= element.clientWidth + 1) continue;
        const overflow = getComputedStyle(element).overflowX;
        const isMeantToScroll = element.matches("pre") || (right <= NARROW && element.querySelector("table, svg"));
        if (["hidden", "clip"].includes(overflow) || (["auto", "scroll"].includes(overflow) && !isMeantToScroll))
            say(element, element.scrollWidth, element.clientWidth);
    }
    return found;
}
"""
"""Elements that cut their content off at the side, except fields of forms and code.

Tables and charts may scroll on narrow screens."""


def overflow(page: Page, *, narrow: int = NARROW) -> list[str]:
    """Return the elements whose content is cut off at the side, and the page itself if it is too wide."""
    return page.evaluate(CUT_OFF, narrow)  # type: ignore[no-any-return]


def _grave(page: Page, look: Look) -> Iterator[str]:
    options = {"resultTypes": ["violations"], **({"runOnly": list(look.axe_rules)} if look.axe_rules else {})}
    for violation in Axe().run(page, options=options).response["violations"]:
        nodes = [" ".join(map(str, node["target"])) for node in violation["nodes"]]
        ours = [node for node in nodes if not any(violation["id"] == rule and part in node for rule, part in OF_DJANGO)]
        if violation["impact"] in GRAVE and ours:
            yield f"{violation['impact']}: {violation['help']} ({violation['id']}): {', '.join(ours[:5])}"


COLOURS = """
    () => {
        const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
        const painted = (...colours) => {
            pen.clearRect(0, 0, 1, 1);
            for (const colour of colours) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
            return [...pen.getImageData(0, 0, 1, 1).data];
        };
        const behind = element => {
            const colours = [];
            for (let each = element; each; each = each.parentElement)
                colours.unshift(getComputedStyle(each).backgroundColor);
            return ["#fff", ...colours];
        };
        const light = ([r, g, b]) => [r, g, b].map(value => value / 255)
            .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
            .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
        const resolved = (element, name) => {
            const style = getComputedStyle(element);
            const value = style[name];
            return value.includes("currentcolor") ? style.color : value;
        };
        const contrast = (element, name) => {
            const colour = resolved(element, name);
            if (colour === "none") return 0;
            const ground = behind(element.closest("svg")?.parentElement ?? element);
            const [low, high] = [light(painted(...ground)), light(painted(...ground, colour))].sort((a, b) => a - b);
            return (high + 0.05) / (low + 0.05);
        };
        const all = selector => [...document.querySelectorAll(`.webhooks-overview ${selector}`)];
        const least = (selector, name) => Math.min(...all(selector).map(each => contrast(each, name)));
        const states = [...document.querySelectorAll(".webhooks-state, td.webhooks-bad")];
        return {
            states: Math.min(...states.map(each => contrast(each, "color"))), number: states.length,
            text: least("svg text", "fill"), grid: least("svg .grid", "stroke"), median: least("svg .p50", "stroke"),
            empty: least(".webhooks-heat .shade-none", "fill"), given_up: least("svg .given_up", "fill"),
            plain_links: all(":is(td, th) a").filter(link =>
                getComputedStyle(link).textDecorationLine === "none"
                && getComputedStyle(link).color === getComputedStyle(link.parentElement).color).length,
            collisions: all(":is(h2, h3)").filter(heading =>
                parseFloat(getComputedStyle(heading).marginTop) < 8
                || parseFloat(getComputedStyle(heading).marginBottom) < 4).length,
        };
    }
"""
"""Contrasts of the overview's charts with what is behind them, and links and headings that cannot be told from text."""
