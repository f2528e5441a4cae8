// Progressive enhancement of the console. Every page works without it.
"use strict";

const FIRST_POLLS = [300, 700, 1500];
const POLL_MILLISECONDS = 3000;
const IDLE_MILLISECONDS = 15_000;

// A live part is reloaded while it is visible, until it is marked as final. A part with a notice stops after an error.
function keepLive(part) {
  let polls = 0;
  const pause = () => {
    const { seconds } = (part.querySelector("[data-seconds]") ?? part).dataset;
    return seconds ? 1000 * seconds : FIRST_POLLS[polls++] ?? POLL_MILLISECONDS;
  };
  const stopped = part.parentElement.querySelector("[data-stopped]");
  const announcement = part.parentElement.querySelector(".webhooks-announcement");
  const refresh = part.parentElement.querySelector(".webhooks-refresh");
  const isDone = () => part.querySelector("[data-done]") !== null;
  const isInUse = () => part.contains(document.activeElement) || isSelected(part);

  async function poll() {
    if (!document.hidden && !isInUse()) {
      try {
        const answer = await fetch(part.dataset.live, { headers: { "X-Requested-With": "fetch" }, redirect: "error" });
        if (answer.ok) {
          show(await answer.text());
        } else if (stopped) {
          stop();
          return;
        }
      } catch {
        // The server is unreachable for the moment. Leave the content unchanged.
        if (stopped) {
          stop();
          return;
        }
      }
    }
    next();
  }

  function stop() {
    stopped.textContent = stopped.dataset.stopped;
  }

  // Screen readers hear only of another state, not of every new figure.
  function announced() {
    return part.querySelector("[data-announced]");
  }

  function show(text) {
    const shown = text.replace(/(<time [^>]*) title="[^"]*"/g, "$1"); // how long ago always changes
    if (shown === part.dataset.shown) {
      return;
    }
    const state = announced()?.dataset.announced;
    replaceContent(part, text);
    part.dataset.shown = shown;
    for (const template of part.querySelectorAll("template[data-of]")) {
      const other = document.querySelector(`[data-part="${template.dataset.of}"]`);
      if (other && lasting(template) !== lasting(other)) {
        replaceContent(other, template.innerHTML);
      }
    }
    if (announcement && announced()?.dataset.announced !== state) {
      announcement.textContent = announced()?.textContent ?? "";
    }
  }

  function next() {
    // The part is final now, but the rest of the page may be outdated.
    if (refresh) {
      refresh.hidden = !isDone();
    }
    if (!isDone()) {
      window.setTimeout(poll, pause());
    }
  }

  next();
}

// A page that is read again as a whole, so that all of its parts are of one moment: soon while something is expected,
// and rarely otherwise. A part with the focus or a selection waits.
function keepPageLive(page) {
  let polls = 0;
  const isExpected = () => page.querySelector("[data-expected]") !== null;

  async function poll() {
    if (!document.hidden) {
      try {
        const answer = await fetch(page.dataset.livePage, {
          headers: { "X-Requested-With": "fetch" },
          redirect: "error",
        });
        if (answer.ok) {
          show(new DOMParser().parseFromString(await answer.text(), "text/html"));
        }
      } catch {
        // The server is unreachable for the moment. Leave the page unchanged.
      }
    }
    next();
  }

  function show(now) {
    const isInUse = (part) => part.contains(document.activeElement) || isSelected(part);
    for (const part of page.querySelectorAll("[data-part]")) {
      const found = now.querySelector(`[data-part="${part.dataset.part}"]`);
      if (found && lasting(found) !== lasting(part) && !isInUse(part)) {
        replaceContent(part, found.innerHTML);
      }
    }
    page.dispatchEvent(new CustomEvent("webhooks:read", { detail: now }));
    hideRefresh();
  }

  // Links for browsers without scripts.
  function hideRefresh() {
    page.querySelectorAll(".webhooks-refresh").forEach((refresh) => { refresh.hidden = true; });
  }

  function next() {
    const pause = isExpected() ? FIRST_POLLS[polls] ?? POLL_MILLISECONDS : IDLE_MILLISECONDS;
    polls += 1;
    window.setTimeout(poll, pause);
  }

  hideRefresh();
  next();
}

// A list, and beside it what one of its rows leads to, read from that page. Without room for both, a row is a link.
function keepLog(log) {
  const page = log.closest("[data-live-page]");
  const rows = log.querySelector("[data-rows]");
  const pane = log.querySelector(".webhooks-pane");
  const button = log.querySelector("[data-many]");
  const links = (within = rows) => [...within.querySelectorAll("[data-row]")];
  const addressOf = (link) => link.getAttribute("href");
  const isThere = () => log.getBoundingClientRect().top >= 0;
  let opened = "";
  let latest = null;

  async function open(address, options = { headers: { "X-Requested-With": "fetch" } }) {
    opened = address;
    mark();
    try {
      const answer = await fetch(address, options);
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (opened !== address) return;
      opened = new URL(answer.url).pathname;
      show(found, answer);
    } catch {
      window.location.assign(address);
    }
  }

  // The heading is a link to the page itself. Messages say what a button has done.
  function show(found, answer) {
    const detail = found.querySelector("[data-detail]");
    if (!detail) {
      window.location.assign(answer.url);
      return;
    }
    const [heading, link] = [document.createElement("h2"), document.createElement("a")];
    link.href = opened;
    link.textContent = found.querySelector("h1").textContent;
    heading.append(link);
    const part = document.createElement("div");
    part.append(...found.querySelectorAll(".webhooks-message"), detail);
    if (pane.dataset.shown === opened && lasting(pane.lastChild) !== lasting(part)) {
      if (!pane.contains(document.activeElement) && !isSelected(pane)) replaceContent(pane.lastChild, part.innerHTML);
    } else if (pane.dataset.shown !== opened) {
      pane.replaceChildren(heading, part);
      pane.scrollTop = 0;
      addCopyButtons(pane);
    }
    pane.dataset.shown = opened;
    pane.querySelectorAll(".webhooks-refresh").forEach((refresh) => { refresh.hidden = true; });
    history.replaceState(null, "", `#${opened.split("/").at(-2)}`);
    mark();
  }

  function mark() {
    for (const link of links()) {
      const row = link.closest("tr");
      if (addressOf(link) === opened) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  // New rows are shown to readers at the top of the list. The others see their number, and the rows that they have.
  function refresh(now) {
    const found = now.querySelector("[data-rows]");
    const known = new Set(links().map(addressOf));
    const number = links(found).filter((link) => !known.has(addressOf(link))).length;
    latest = found;
    if (isThere() && !isSelected(rows)) {
      insert();
    } else {
      button.hidden = number === 0;
      button.textContent = number === 1 ? button.dataset.one : button.dataset.many.replace("#", number);
    }
    if (pane.querySelector("[data-expected]")) open(opened);
  }

  function insert() {
    const focused = links().includes(document.activeElement) && addressOf(document.activeElement);
    button.hidden = true;
    if (lasting(latest) === lasting(rows)) return;
    replaceContent(rows, latest.innerHTML);
    mark();
    links().find((link) => addressOf(link) === focused)?.focus({ preventScroll: true });
  }

  function press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const place = links().indexOf(event.target);
    if (step && place >= 0) {
      event.preventDefault();
      links()[place + step]?.focus();
    }
  }

  function click(event) {
    const link = event.target.closest("[data-row]");
    const attempt = event.target.closest(".webhooks-strip a");
    const isPlain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
    if (link && rows.contains(link) && isPlain && pane.offsetParent) {
      event.preventDefault();
      open(addressOf(link));
    } else if (attempt && pane.contains(attempt)) {
      event.preventDefault();
      const details = pane.querySelector(attempt.hash);
      details.open = true;
      details.scrollIntoView({ block: "nearest" });
    }
  }

  function submit(event) {
    event.preventDefault();
    delete pane.dataset.shown;
    open(event.target.getAttribute("action"), { method: "POST", body: new FormData(event.target, event.submitter) });
  }

  pane.hidden = false;
  log.addEventListener("keydown", press);
  log.addEventListener("click", click);
  pane.addEventListener("submit", submit);
  page?.addEventListener("webhooks:read", (event) => refresh(event.detail));
  button.addEventListener("click", () => {
    insert();
    page.scrollIntoView();
    links()[0]?.focus();
  });
  const first = links().find((link) => location.hash && addressOf(link).includes(location.hash.slice(1))) ?? links()[0];
  if (first && pane.offsetParent) open(addressOf(first));
}

function isSelected(part) {
  const selection = window.getSelection();
  return !selection.isCollapsed && part.contains(selection.anchorNode);
}

// The content without what changes with every second, or with every form.
function lasting(part) {
  return part.innerHTML
    .replace(/(<time [^>]*) title="[^"]*"/g, "$1")
    .replace(/ hidden(="")?| aria-current="true"/g, "")
    .replace(/name="csrfmiddlewaretoken" value="[^"]*"/g, "");
}

// Replaces the content of a part, and keeps what its reader has opened and scrolled.
function replaceContent(part, html) {
  const scrolled = [...part.querySelectorAll(".webhooks-scroll")].map((each) => each.scrollLeft);
  const key = (details, index) => details.id || index;
  const open = new Map([...part.querySelectorAll("details")].map((each, index) => [key(each, index), each.open]));
  const checked = [...part.querySelectorAll(".webhooks-tabs > :checked")].map((each) => each.id);
  part.innerHTML = html;
  checked.forEach((id) => { (document.getElementById(id) ?? {}).checked = true; });
  part.querySelectorAll("details").forEach((details, index) => {
    details.open = open.get(key(details, index)) ?? details.open;
  });
  part.querySelectorAll(".webhooks-scroll").forEach((each, index) => {
    each.scrollLeft = scrolled[index] ?? 0;
  });
  addCopyButtons(part);
}

// "in 12 s" counts down to its time.
function countDown() {
  for (const time of document.querySelectorAll("time")) {
    const rest = Math.ceil((Date.parse(time.dateTime) - Date.now()) / 1000);
    if (rest >= 0) {
      time.textContent = time.textContent.replace(/[\d.,]+ s$/, `${rest} s`);
    }
  }
}

// Copy buttons are hidden until this script enables them.
function addCopyButtons(root) {
  for (const button of root.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) {
      continue;
    }
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      const label = button.textContent;
      button.textContent = button.dataset.copied;
      window.setTimeout(() => { button.textContent = label; }, 2000);
    });
  }
}

// A check box for each group of event types: checked if all are, indeterminate if some are.
function addGroupSwitch(group) {
  const boxes = [...group.querySelectorAll("input[type=checkbox]")];
  const whole = document.createElement("input");
  const label = document.createElement("label");
  const line = document.createElement("div");
  whole.type = "checkbox";
  label.append(whole, ` ${group.dataset.group}`);
  label.className = "webhooks-whole";
  line.className = "webhooks-choice";
  line.append(label);
  group.querySelector("legend").after(line);

  function look() {
    const checked = boxes.filter((box) => box.checked).length;
    whole.checked = checked === boxes.length;
    whole.indeterminate = checked > 0 && checked < boxes.length;
  }

  whole.addEventListener("change", () => {
    for (const box of boxes) {
      box.checked = whole.checked;
    }
  });
  group.addEventListener("change", look);
  look();
}

// A URL is checked during input by the same rules as on saving.
function checkAtOnce(input) {
  const verdict = document.createElement("p");
  let timer = 0;
  verdict.className = "webhooks-verdict";
  verdict.setAttribute("role", "status");
  (input.closest(".flex-container") ?? input.parentElement).append(verdict);

  async function check() {
    const asked = input.value;
    if (!asked) {
      verdict.textContent = "";
      return;
    }
    const body = new FormData();
    body.append("url", asked);
    body.append("csrfmiddlewaretoken", input.form.elements.csrfmiddlewaretoken.value);
    try {
      const answer = await fetch(input.dataset.check, { method: "POST", body, redirect: "error" });
      if (answer.ok && input.value === asked) {
        verdict.innerHTML = await answer.text();
      }
    } catch {
      verdict.textContent = "";
    }
  }

  verdict.addEventListener("click", ({ target }) => {
    if (target.dataset.url) {
      input.value = target.dataset.url;
      check();
    }
  });
  input.addEventListener("input", () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(check, 400);
  });
  input.addEventListener("change", check);
}

// Accounts are searched by name during input, as in the combobox pattern of ARIA. Without JavaScript, the first ones are
// suggested by the browser.
function suggestOwners(input) {
  const field = document.createElement("div");
  const list = document.createElement("ul");
  const summary = document.createElement("p");
  let active = -1;
  let timer = 0;
  list.id = `${input.id}_options`;
  list.className = "webhooks-suggestions";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", input.labels[0].textContent);
  summary.className = "webhooks-quiet";
  summary.setAttribute("role", "status");
  input.before(field);
  field.append(input, list, summary);
  input.removeAttribute("list");
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-controls", list.id]]) {
    input.setAttribute(name, value);
  }
  show([]);

  function show(found) {
    const options = found.map(({ id, text }, index) => {
      const option = document.createElement("li");
      option.id = `${list.id}_${index}`;
      option.dataset.name = id;
      option.textContent = text === id ? id : `${text} (${id})`;
      option.setAttribute("role", "option");
      return option;
    });
    list.replaceChildren(...options);
    list.hidden = options.length === 0;
    input.setAttribute("aria-expanded", !list.hidden);
    mark(-1);
  }

  function mark(index) {
    active = index;
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", place === active));
    input.setAttribute("aria-activedescendant", list.children[active]?.id ?? "");
    list.children[active]?.scrollIntoView({ block: "nearest" });
  }

  function choose(option) {
    input.value = option.dataset.name;
    summary.textContent = "";
    show([]);
  }

  async function search() {
    const term = input.value;
    try {
      const answer = await fetch(`${input.dataset.owners}?${new URLSearchParams({ term })}`, { redirect: "error" });
      if (answer.ok && input.value === term && document.activeElement === input) {
        const found = await answer.json();
        show(found.results);
        summary.textContent = found.summary;
      }
    } catch {
      summary.textContent = "";
    }
  }

  function press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const number = list.children.length;
    if (step && list.hidden) {
      search();
    } else if (step) {
      mark(active < 0 && step < 0 ? number - 1 : (active + step + number) % number);
    } else if (event.key === "Enter" && active >= 0) {
      choose(list.children[active]);
    } else if (event.key === "Escape" && !list.hidden) {
      show([]);
    } else {
      return;
    }
    event.preventDefault();
  }

  input.addEventListener("keydown", press);
  input.addEventListener("blur", () => show([]));
  input.addEventListener("input", () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(search, 300);
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault(); // keeps the focus in the field
    if (event.target.closest("li")) choose(event.target.closest("li"));
  });
}

// Selecting another type shows its example unless the data was edited.
function showExamples(select) {
  const examples = JSON.parse(document.getElementById(select.dataset.examples).textContent);
  const data = select.form.querySelector("[data-example]");
  select.addEventListener("change", () => {
    if (!data.value.trim() || Object.values(examples).includes(data.value.replaceAll("\r\n", "\n"))) {
      data.value = examples[select.value] ?? "";
    }
  });
}

// A link to a field in a closed section opens it, as newer browsers do by themselves.
function reveal() {
  const target = document.getElementById(location.hash.slice(1));
  const section = target?.closest("details:not([open])");
  if (section) {
    section.open = true;
    target.scrollIntoView();
  }
}

// "/" moves to the search, unless the user is typing.
function focusSearch(event) {
  const search = document.querySelector("#webhooks-search, #searchbar");
  const isTyping = event.target.matches("input, textarea, select, [contenteditable]");
  if (event.key === "/" && search && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    search.focus();
  }
}

// The next page has its times in the zone of the browser. Each page names its zone. A form with times is read in the
// zone of its page, so that page must not change it.
function rememberTimeZone(page) {
  if (page.querySelector('input[type="datetime-local"]')) return;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && zone !== page.dataset.timezone) {
    const scope = location.protocol === "https:" ? "SameSite=None; Secure; Partitioned" : "SameSite=Lax";
    document.cookie = `webhooks_timezone=${zone}; path=/; max-age=31536000; ${scope}`;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-timezone]").forEach(rememberTimeZone);
  reveal();
  document.addEventListener("keydown", focusSearch);
  document.querySelectorAll("[data-live]").forEach(keepLive);
  document.querySelectorAll("[data-live-page]").forEach(keepPageLive);
  document.querySelectorAll("[data-log]").forEach(keepLog);
  window.setInterval(countDown, 1000);
  document.querySelectorAll("[data-group]").forEach(addGroupSwitch);
  document.querySelectorAll("[data-owners]").forEach(suggestOwners);
  document.querySelectorAll("[data-check]").forEach(checkAtOnce);
  document.querySelectorAll("[data-examples]").forEach(showExamples);
  addCopyButtons(document);
});
