// Takes the pictures of the docs: node screenshots.mjs LINK FOLDER.
import { logIn, open } from "./browser.mjs";

const [link, folder] = process.argv.slice(2);
const { origin } = new URL(link);
const pages = { overview: "/", tasks: "/tasks", task: "/tasks?tool=count", waiting: "/waiting", tools: "/tools", try: "/try/csv_profile" };

const browser = await open();
const first = await browser.newContext();
await logIn(await first.newPage(), link);
const storageState = await first.storageState();
for (const colorScheme of ["light", "dark"]) {
  for (const [width, height, suffix] of [[1280, 800, ""], [320, 720, "-narrow"]]) {
    const made = await browser.newContext({ viewport: { width, height }, colorScheme, storageState });
    const page = await made.newPage();
    for (const [name, path] of Object.entries(pages)) {
      await page.goto(origin + path);
      if (name === "task") await page.locator("tbody a").first().click();
      await page.waitForTimeout(1200);
      await page.screenshot({ path: `${folder}/console-${name}-${colorScheme}${suffix}.png` });
    }
    await made.close();
  }
}
await browser.close();
