// Takes the pictures of the docs: node screenshots.mjs LINK FOLDER.
import { logIn, open } from "./browser.mjs";

const [link, folder] = process.argv.slice(2);
const { origin } = new URL(link);
const pages = { overview: "/", tasks: "/tasks", waiting: "/waiting", tools: "/tools" };

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
      await page.waitForTimeout(300);
      await page.screenshot({ path: `${folder}/console-${name}-${colorScheme}${suffix}.png` });
    }
    await made.close();
  }
}
await browser.close();
