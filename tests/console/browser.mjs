// For the scenarios and the screenshots: a browser, and a log of everything that a page must not do.
import { chromium } from "playwright-core";

export const PAGES = [
  "/", "/tasks", "/waiting", "/tools", "/tools/probe.wasm", "/try/echo", "/calls", "/calls?show=failed", "/calls/1", "/permissions",
  "/clients", "/hosts", "/audit",
];

export async function open() {
  return chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
}

// A context whose pages note violations, dialogs, errors and requests to other origins in `faults`.
export async function context(browser, origin, options = {}) {
  const made = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const faults = [];
  let bytes = 0;
  made.on("page", (page) => {
    page.on("console", (message) => faults.push(`console ${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => faults.push(`error: ${error}`));
    page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== origin) faults.push(`request to ${request.url()}`);
    });
    page.on("response", async (response) => {
      if (response.headers()["content-type"] === "text/event-stream") return;
      bytes += (await response.body().catch(() => Buffer.alloc(0))).length;
    });
  });
  return {
    made,
    faults,
    page: () => made.newPage(),
    bytes: () => { const all = bytes; bytes = 0; return all; },
  };
}

// Logs in by the one-time link.
export async function logIn(page, link) {
  await page.goto(link);
  await page.waitForURL((url) => url.pathname === "/");
}
