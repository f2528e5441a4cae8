"""Inspection of pages: errors, overflow, and accessibility."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from .conftest import Console, Login

AXE = Axe().axe_script
VIOLATIONS = """
async (options) => {
    let hasChanged, results;
    const observer = new MutationObserver((changes) => {
        hasChanged ||= changes.some(({removedNodes}) => [...removedNodes].some((node) => node instanceof Element));
    });
    observer.observe(document, {childList: true, subtree: true});
    Object.defineProperty(document, "hidden", {value: true, configurable: true});
    do {
        hasChanged = false;
        results = await axe.run(options);
    } while (hasChanged);
    delete document.hidden;
    observer.disconnect();
    return results.violations;
}
"""
"""Its own ``run`` defines axe anew in each look, and also returns what passed.

A live page reads itself again, but not while it is hidden. If an answer was already on its way, axe has judged elements
that it replaced.
"""

GRAVE = ("serious", "critical")

OF_THEMES = (
    ("link-name", "[data-lte-toggle="),
    ("listitem", ".nav-"),
    ("listitem", ".dropdown"),
    *(("listitem", tools) for tools in (".ml-auto", ".flex-wrap", ".object-tools", ".webhooks-tool")),
    ("color-contrast", ".text-link"),
    ("color-contrast", ".mx-2"),  # between the parts of a title in Unfold
)
"""Findings in parts of themes that no template of ours can mend: the rule and a part of the selector.

The themes have their own navigation and links, and no list around the object tools.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """A combination of theme, width and language."""

    theme: str
    width: int
    height: int
    language: str = "en"
    axe_rules: Sequence[str] = ()
    """The rules to check; empty for all."""
    measures_targets: bool = False
    """Whether links and buttons must have 24 pixels, or room around them (WCAG 2.5.8)."""


LOOKS = (
    Look(theme="light", width=1440, height=900),
    Look(theme="dark", width=390, height=844, axe_rules=("color-contrast",)),
)
"""Colours depend only on the theme and positions only on the width, so that two looks are enough."""

MEASURED = (
    replace(LOOKS[0], measures_targets=True),
    replace(LOOKS[1], measures_targets=True, axe_rules=("color-contrast", "target-size")),
)
"""The looks of the console in Django's own theme. Other themes have links of their own size."""


@contextmanager
def looking(
    browser: Browser, login: Login, look: Look, *, with_javascript: bool = True
) -> Iterator[tuple[Page, list[str]]]:
    """Yield a page in the console and a list of its errors, such as violations of the Content-Security-Policy."""
    context = browser.new_context(
        color_scheme=look.theme,  # type: ignore[arg-type]
        viewport={"width": look.width, "height": look.height},
        locale=look.language,
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
    """Open a path, and return the problems of the page in each look."""
    with looking(browser, console, LOOKS[0]) as (page, problems):
        response = page.goto(console.address + path)
        assert response is not None
        assert response.status == 200, path
        then(page)
        return [*problems, *problems_in_each_look(page, name, MEASURED)]


def problems_in_each_look(page: Page, name: str, looks: Sequence[Look] = LOOKS) -> list[str]:
    """Return the problems of an open page in each look. It is loaded once, as by a reader who changes the theme."""
    found = []
    for look in looks:
        wear(page, look)
        keep_picture(page, f"{name} {look.width} {look.theme}")
        found += [f"{look.theme} {look.width}: {each}" for each in problems_of(page, look)]
    wear(page, LOOKS[0])
    return found


END_TRANSITIONS = """
    document.getAnimations().filter(each => each instanceof CSSTransition).forEach(each => each.finish())
"""


def wear(page: Page, look: Look) -> None:
    """Change the theme and the width of an open page."""
    page.emulate_media(color_scheme=look.theme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": look.width, "height": look.height})
    page.evaluate(END_TRANSITIONS)


def keep_picture(page: Page, name: str) -> None:
    """Write a screenshot into the directory $SCREENSHOTS, if the variable is set."""
    if directory := os.environ.get("SCREENSHOTS"):
        path = Path(directory) / f"{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.png"
        page.screenshot(path=path, full_page=True)


PANE = "[data-log]:has([data-row]) > section"
"""What stands beside a list, and shows the page of one of its rows if there is room for both."""


def problems_of(page: Page, look: Look) -> list[str]:
    """Return what is cut off or illegible on a page when it is complete, and the serious findings of axe."""
    page.wait_for_load_state()
    if page.locator(PANE).is_visible():
        page.locator(f"{PANE} > h2").wait_for()
    return [*overflow(page), *page.evaluate(FAINT), *page.evaluate(AS_TEXT), *_grave(page, look)]


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
        if (element.scrollWidth <= element.clientWidth + 1 || element.matches("input, textarea")) continue;
        if (element.closest("svg, select, template, script, style, aside") || isHidden(element)) continue;
        const {overflowX: overflow, textOverflow} = getComputedStyle(element);
        if (textOverflow === "ellipsis") continue;
        const screen = element.parentElement.closest("[data-log] > section") ?? document.documentElement;
        const mayScroll = screen.clientWidth <= NARROW && element.querySelector("table:not(.webhooks-stacked), svg");
        const isMeantToScroll = element.matches("pre") || mayScroll;
        if (["hidden", "clip"].includes(overflow) || (["auto", "scroll"].includes(overflow) && !isMeantToScroll))
            say(element, element.scrollWidth, element.clientWidth);
    }
    for (const text of document.querySelectorAll("svg text")) {
        const box = text.getBoundingClientRect(), room = text.ownerSVGElement.getBoundingClientRect();
        if (box.left < room.left - 1 || box.right > room.right + 1)
            found.push(`"${text.textContent}" of a chart is cut off`);
    }
    return found;
}
"""
"""Elements that cut their content off at the side without an ellipsis, except fields, code and the themes' sidebars.

Charts, and tables whose rows are not stacked, may scroll on narrow screens and in a narrow pane beside a list. No label
of a chart may reach beyond it."""


def overflow(page: Page, *, narrow: int = NARROW) -> list[str]:
    """Return the elements whose content is cut off at the side, and the page itself if it is too wide."""
    return page.evaluate(CUT_OFF, narrow)  # type: ignore[no-any-return]


def _grave(page: Page, look: Look) -> Iterator[str]:
    options = {"resultTypes": ["violations"], **({"runOnly": list(look.axe_rules)} if look.axe_rules else {})}
    options |= {"rules": {"target-size": {"enabled": True}}} if look.measures_targets else {}
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE)
    for violation in page.evaluate(VIOLATIONS, options):
        nodes = [" ".join(map(str, node["target"])) for node in violation["nodes"]]
        ours = [node for node in nodes if not any(violation["id"] == rule and part in node for rule, part in OF_THEMES)]
        if violation["impact"] in GRAVE and ours:
            yield f"{violation['impact']}: {violation['help']} ({violation['id']}): {', '.join(ours[:5])}"


FAINT = """
() => {
    const pen = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const painted = (colours, opacity = 1) => {
        pen.clearRect(0, 0, 1, 1);
        colours.forEach((colour, index) => {
            pen.globalAlpha = index === colours.length - 1 ? opacity : 1;
            pen.fillStyle = colour;
            pen.fillRect(0, 0, 1, 1);
        });
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
    const contrast = (element, paint) => {
        const style = getComputedStyle(element), ground = behind(element.closest("svg").parentElement);
        const colour = style[paint].includes("currentcolor") ? style.color : style[paint];
        if (colour === "none" || (paint === "stroke" && parseFloat(style.strokeWidth) === 0)) return 1;
        let opacity = parseFloat(style[`${paint}Opacity`]);
        for (let each = element; each.tagName !== "svg"; each = each.parentElement)
            opacity *= parseFloat(getComputedStyle(each).opacity);
        const shades = [light(painted(ground)), light(painted([...ground, colour], opacity))];
        return (Math.max(...shades) + 0.05) / (Math.min(...shades) + 0.05);
    };
    const found = new Set();
    for (const element of document.querySelectorAll("svg :is(text, rect, path, circle, line, polyline)")) {
        if (!element.closest('[class*="webhooks-"]') || element.matches(".webhooks-bar rect")) continue;
        const isText = element.matches("text"), isSetting = element.matches(".grid, .tick line, .shade-none");
        const paints = isText ? ["fill"] : element.matches("line") ? ["stroke"] : ["fill", "stroke"];
        const shown = Math.max(...paints.map(paint => contrast(element, paint)));
        if (shown >= (isText ? 4.5 : isSetting ? 1.1 : 3)) continue;
        const classes = [element.parentElement, element].map(each => each.getAttribute("class") ?? "").join(" ");
        found.add(`${element.tagName} of the classes "${classes.trim()}" has a contrast of ${shown.toFixed(2)}`);
    }
    const field = ":is(input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea)";
    for (const element of document.querySelectorAll(`.webhooks-portal ${field}`)) {
        const ground = behind(element.parentElement), border = getComputedStyle(element).borderTopColor;
        const shades = [light(painted(ground)), light(painted([...ground, border]))];
        const shown = (Math.max(...shades) + 0.05) / (Math.min(...shades) + 0.05);
        if (shown < 3) found.add(`the border of ${element.name} has a contrast of ${shown.toFixed(2)}`);
    }
    return [...found];
}
"""
"""Borders of fields, text, and shapes of charts that are too faint by the WCAG (1.4.3 and 1.4.11).

Lines of the grid and empty cells only have to be visible."""

AS_TEXT = """
() => {
    const all = selector => [...document.querySelectorAll(`.webhooks-overview ${selector}`)];
    const links = all("tbody :is(td, th) a").filter(link => {
        const style = getComputedStyle(link);
        return style.textDecorationLine === "none" && style.color === getComputedStyle(link.parentElement).color;
    });
    const headings = all(":is(h2, h3)").filter(heading => {
        const style = getComputedStyle(heading);
        return parseFloat(style.marginTop) < 8 || parseFloat(style.marginBottom) < 4;
    });
    return [...links.map(each => `link "${each.textContent}" looks like text`),
        ...headings.map(each => `heading "${each.textContent}" collides with text`)];
}
"""
"""Links and headings of the overview that cannot be told from text."""
