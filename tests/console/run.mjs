// Uses the console in a real browser: node run.mjs ORIGIN LINK1 LINK2 LINK3 TASKS, where TASKS is JSON with the ids of
// the tasks that the test has made. Prints one line for each scenario: "ok NAME" or "not ok NAME: why".
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { PAGES, context, logIn, open } from "./browser.mjs";

const [origin, link, plainLink, keyboardLink, given] = process.argv.slice(2);
const tasks = JSON.parse(given);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const all = [...PAGES, `/tasks/${tasks.hostile}`, `/tasks/${tasks.asks}`, `/tasks/${tasks.approve}`];

const browser = await open();
let failed = false;

function check(holds, what) {
  if (!holds) throw new Error(what);
}

async function scenario(name, run) {
  try {
    await run();
    console.log(`ok ${name}`);
  } catch (error) {
    failed = true;
    console.log(`not ok ${name}: ${String(error.message ?? error).replaceAll("\n", " ")}`);
  }
}

const main = await context(browser, origin);
const page = await main.page();

await scenario("a link logs in once", async () => {
  await page.goto(`${origin}/tasks`);
  check(new URL(page.url()).pathname === "/login", `without a login: ${page.url()}`);
  await logIn(page, link);
  check(new URL(page.url()).hash === "", "the code stays in the address");
  const other = await context(browser, origin);
  const second = await other.page();
  await second.goto(link);
  await second.getByRole("alert").waitFor();
  check((await second.getByRole("alert").innerText()).includes("used or expired"), "the second use is refused in words");
  await other.made.close();
});

await scenario("every page is small, quiet and within its frame", async () => {
  for (const path of all) {
    main.bytes();
    const fresh = await main.page();
    await fresh.goto(origin + path, { waitUntil: "networkidle" }).catch(() => {});
    await fresh.setViewportSize({ width: 320, height: 800 });
    const wide = await fresh.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 320, `${path} is ${wide} px wide at 320`);
    await fresh.close();
    const bytes = main.bytes();
    check(bytes > 0 && bytes < 150_000, `${path} has ${bytes} bytes`);
  }
  check(main.faults.length === 0, main.faults.join("; "));
});

await scenario("what a tool says does nothing", async () => {
  await page.goto(`${origin}/tasks/${tasks.hostile}`);
  const text = await page.locator("main").innerText();
  check(text.includes("<script>") && text.includes("\\u{202e}"), `the text is shown as text: ${text.slice(0, 300)}`);
  check((await page.locator("main script, main iframe, main svg:not(.bar), main a[href^='javascript']").count()) === 0, "an element");
  await page.goto(`${origin}/tasks/${tasks.hostileQuestion}`);
  check((await page.locator("main").innerText()).includes("<img"), "the question is shown as text");
  await page.goto(`${origin}/calls?show=failed`);
  await page.locator("tbody a").first().click();
  const call = await page.locator("main").innerText();
  check(call.includes("<script>") && call.includes("\\u{202e}"), `a failed call is shown as text: ${call.slice(0, 300)}`);
  check((await page.locator("main script, main iframe, main img, main a[href^='javascript']").count()) === 0, "an element");
  check((await page.locator("svg.bar rect").first().getAttribute("width")) > 0, "its waterfall has bars");
  check(main.faults.length === 0, main.faults.join("; "));
});

await scenario("a task changes before one's eyes", async () => {
  await page.goto(`${origin}/tasks/${tasks.works}`);
  check((await page.locator(".lead .state").innerText()).includes("working"), "it works");
  await page.getByRole("button", { name: "Cancel this task" }).click();
  await page.locator(".lead .state.cancelled").waitFor();
  await page.goto(`${origin}/tasks/${tasks.ends}`);
  await page.evaluate(() => { window.untouched = true; });
  await page.locator(".lead .state.ok").waitFor({ timeout: 30_000 });
  check(await page.evaluate(() => window.untouched), "without a reload");
});

await scenario("a question is answered", async () => {
  await page.goto(`${origin}/waiting`);
  const waits = page.locator(`[id="t-${tasks.asks}"]`);
  await waits.getByRole("textbox").fill("Ada");
  await waits.getByRole("button", { name: "Send the answer" }).click();
  await page.goto(`${origin}/tasks/${tasks.asks}`);
  await page.locator(".lead .state.ok").waitFor();
  check((await page.locator("main").innerText()).includes("Ada"), "the answer reached the tool");
  await page.goto(`${origin}/tasks/${tasks.confirms}`);
  await page.getByRole("button", { name: "Decline" }).click();
  await page.locator(".lead .state.asks").waitFor({ state: "detached" });
});

await scenario("a call is approved or denied", async () => {
  await page.goto(`${origin}/waiting`);
  const deny = page.locator(`[id="t-${tasks.deny}"]`);
  check((await deny.innerText()).includes("Waits in production."), "the operator's words");
  await deny.getByLabel("Note for the caller").fill("Not today.");
  await deny.getByRole("button", { name: "Deny" }).click();
  await page.goto(`${origin}/tasks/${tasks.deny}`);
  await page.locator(".lead .state.bad").waitFor();
  check((await page.locator("main").innerText()).includes("Not today."), "the note");
  await page.goto(`${origin}/q/${tasks.approve}`);
  check(new URL(page.url()).pathname === `/tasks/${tasks.approve}`, page.url());
  const approve = page.getByRole("button", { name: "Approve" });
  check(await approve.isDisabled(), "it can be pressed at once");
  await approve.click();
  await page.locator(".lead .state.ok").waitFor();
  const events = await page.locator("#timeline ~ .scroll tbody tr").allInnerTexts();
  check(events.some((event) => event.includes("approved")), `its timeline: ${events.join(" | ")}`);
});

await scenario("lists are filtered by their address", async () => {
  await page.goto(`${origin}/tasks`);
  await page.getByRole("link", { name: "Only failed" }).click();
  check(new URL(page.url()).search === "?state=failed", page.url());
  const states = await page.locator("tbody .state").allInnerTexts();
  check(states.length > 0 && states.every((state) => state.includes("failed")), states.join());
  await page.goto(`${origin}/tasks?tool=nothing`);
  check((await page.locator("main").innerText()).includes("No task matches"), "an empty list says so");
  await page.goto(`${origin}/calls?show=slowest&tool=spin`);
  check((await page.locator("tbody tr").count()) === 1, "the calls of one tool");
});

await scenario("a tool is tried by its form", async () => {
  await page.goto(`${origin}/tools`);
  await page.locator('a[href="/try/echo"]').click();
  await page.getByRole("textbox").first().fill("<b>tried</b>");
  await page.getByRole("button", { name: "Call" }).click();
  await page.getByRole("heading", { name: "Result" }).waitFor();
  check((await page.locator("main").innerText()).includes("<b>tried</b>"), "the result is shown as text");
  await page.goto(`${origin}/try/ask?arguments=${encodeURIComponent('{"question":"From a form?"}')}`);
  await page.getByRole("radio", { name: /as a task/ }).check();
  await page.getByRole("button", { name: "Call" }).click();
  await page.getByRole("button", { name: "Send the answer" }).waitFor();
  await page.getByRole("link", { name: "Run again with the same arguments" }).click();
  check((await page.getByRole("textbox").first().inputValue()) === "From a form?", "the form is filled in");
  check(main.faults.length === 0, main.faults.join("; "));
});

await scenario("every page passes axe", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1280, 320]) {
      const checked = await context(browser, origin, { bypassCSP: true, colorScheme, viewport: { width, height: 800 } });
      await checked.made.addCookies(await main.made.cookies());
      const shown = await checked.page();
      for (const path of [...all, "/login", "/tasks/none"]) {
        await shown.goto(origin + path);
        await shown.evaluate(axe);
        const tags = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];
        const { violations } = await shown.evaluate((values) => window.axe.run({ runOnly: { type: "tag", values } }), tags);
        const found = violations.map(({ id, nodes }) => `${id} (${nodes[0].html})`);
        check(found.length === 0, `${path} ${colorScheme} ${width}: ${found.join("; ")}`);
      }
      await checked.made.close();
    }
  }
});

await scenario("the keyboard is enough", async () => {
  const keyboard = await context(browser, origin);
  const typed = await keyboard.page();
  await logIn(typed, keyboardLink);
  await typed.keyboard.press("g");
  await typed.keyboard.press("w");
  await typed.waitForURL(`${origin}/waiting`);
  const target = typed.locator(`[id="t-${tasks.byKeyboard}"] input[type=text], [id="t-${tasks.byKeyboard}"] input:not([type])`).first();
  for (let tabs = 0; tabs < 80 && !(await target.evaluate((node) => node === document.activeElement)); tabs += 1) {
    await typed.keyboard.press("Tab");
  }
  await typed.keyboard.type("by keys");
  await typed.keyboard.press("Tab");
  await typed.keyboard.press("Tab");
  check((await typed.evaluate(() => document.activeElement.innerText)) === "Send the answer", "the answer is two steps away");
  const sent = typed.waitForEvent("framenavigated");
  await typed.keyboard.press("Enter");
  await sent;
  await typed.waitForLoadState();
  await typed.goto(`${origin}/tasks/${tasks.byKeyboard}`);
  await typed.locator(".lead .state.ok").waitFor();
  check((await typed.locator("main").innerText()).includes("by keys"), "the answer reached the tool");
  await keyboard.made.close();
});

await scenario("everything works without JavaScript", async () => {
  const plain = await context(browser, origin, { javaScriptEnabled: false });
  const read = await plain.page();
  await read.goto(plainLink);
  await read.getByLabel("Code from the terminal").fill(plainLink.split("#")[1]);
  await read.getByRole("button", { name: "Log in" }).click();
  for (const path of all) {
    await read.goto(origin + path);
    check((await read.locator("h1").count()) === 1, `${path} has one heading`);
  }
  await read.goto(`${origin}/tasks/${tasks.withoutScript}`);
  await read.getByRole("textbox").fill("plain");
  await read.getByRole("button", { name: "Send the answer" }).click();
  await read.goto(`${origin}/tasks/${tasks.withoutScript}`);
  check((await read.locator("main").innerText()).includes("plain"), "the answer reached the tool");
  await read.getByRole("button", { name: "Dark" }).click();
  check((await read.locator("html").getAttribute("data-theme")) === "dark", "the theme is kept");
  await plain.made.close();
});

await scenario("a logout ends the login", async () => {
  await page.goto(origin);
  await page.getByRole("button", { name: "Log out" }).click();
  await page.goto(`${origin}/tasks`);
  check(new URL(page.url()).pathname === "/login", page.url());
});

await browser.close();
process.exit(failed ? 1 : 0);
