// The console works without this file. It logs in by the code of a link, keeps live pages current, and adds keys.
"use strict";

const policy = window.trustedTypes
  ? trustedTypes.createPolicy("toolyard", { createHTML: (text) => text })
  : { createHTML: (text) => text };

// The code of a login link is in the fragment. Browsers do not send that part of an address.
const login = document.getElementById("login");
function logIn() {
  if (!login || location.hash.length < 2) return;
  login.elements.code.value = location.hash.slice(1);
  history.replaceState(null, "", location.pathname);
  login.requestSubmit();
}
addEventListener("hashchange", logIn);
logIn();

// On a narrow page the menu begins closed.
const menu = document.querySelector("nav.side details");
if (menu && matchMedia("(max-width: 900px)").matches) menu.open = false;

// A person must have read the call that they approve: the button works a second after the call came onto the page.
let guarded = "";
function guard() {
  const buttons = [...document.querySelectorAll("button[data-guarded]")];
  const shown = buttons.map((button) => button.form.elements.fingerprint.value).join();
  if (shown === guarded) return;
  guarded = shown;
  for (const button of buttons) button.disabled = true;
  setTimeout(() => { for (const button of buttons) button.disabled = false; }, 1000);
}
guard();

// Live pages: the stream only says that something changed. The page is fetched again, from the same address and by the
// same renderer, and its parts are replaced where they differ.
const live = document.querySelector("main[data-live]");
const label = document.getElementById("live");
let source = null;
let paused = false;
let fetching = false;
let again = false;

const isBusy = () => {
  const focus = document.activeElement;
  const form = focus && focus.closest("main form");
  return Boolean(form) || String(getSelection()).length > 0 || document.querySelector("main form[data-edited]");
};

async function refresh() {
  if (fetching) { again = true; return; }
  if (paused || isBusy()) { label.textContent = paused ? "paused, there is news" : "waits while you edit"; return; }
  fetching = true;
  again = false;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin", redirect: "manual" });
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(policy.createHTML(await answer.text()), "text/html");
    document.title = fresh.title;
    replace("main", fresh);
    guard();
    replace("#waiting-count", fresh);
    label.textContent = "live";
  } catch {
    label.textContent = "the host does not answer";
  } finally {
    fetching = false;
    if (again) setTimeout(refresh, 500);
  }
}

function replace(selector, fresh) {
  const [old, next] = [document.querySelector(selector), fresh.querySelector(selector)];
  if (!old || !next) return;
  Idiomorph.morph(old, document.importNode(next, true), {
    callbacks: {
      // Parts that a person has opened stay open.
      beforeAttributeUpdated: (name, node) => !(name === "open" && node.localName === "details"),
    },
  });
}

function listen() {
  if (!live || source || document.hidden) return;
  source = new EventSource("/events");
  source.onmessage = refresh;
  source.onerror = () => { label.textContent = "the host does not answer"; };
}

if (live) {
  listen();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) { listen(); refresh(); return; }
    if (source) source.close();
    source = null;
  });
  document.addEventListener("input", (event) => {
    const form = event.target.closest("main form");
    if (form) form.dataset.edited = "";
  });
}

// Keys move and open; none of them acts on anything. They are off while one types.
const goTo = { o: "/", t: "/tasks", w: "/waiting", l: "/tools", p: "/permissions", s: "/clients", c: "/calls", h: "/hosts", a: "/audit" };
let isGoing = false;
document.addEventListener("keydown", (event) => {
  const typed = event.target.closest("input, textarea, select");
  if (typed || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem("keys") === "off") return;
  if (isGoing) {
    isGoing = false;
    if (goTo[event.key]) location.assign(goTo[event.key]);
    return;
  }
  const rows = [...document.querySelectorAll("main tbody a")];
  const at = rows.indexOf(document.activeElement);
  switch (event.key) {
    case "g": isGoing = true; break;
    case "j": rows[Math.min(at + 1, rows.length - 1)]?.focus(); break;
    case "k": rows[Math.max(at - 1, 0)]?.focus(); break;
    case "/": {
      const filter = document.querySelector("[data-filter]");
      if (filter) { event.preventDefault(); filter.focus(); }
      break;
    }
    case ".":
      if (!live) break;
      paused = !paused;
      label.textContent = paused ? "paused" : "live";
      if (!paused) refresh();
      break;
  }
});
