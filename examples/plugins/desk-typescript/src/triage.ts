import { mkdir, readdir, rename } from "node:fs/promises";
import * as z from "zod";
import { ask, effects, progress, reply, tool, ToolError } from "./toolyard.js";

const Choice = z.enum(["keep", "later", "trash"]);
const Sorted = z.object({ moved: z.array(z.object({ file: z.string(), to: Choice })) });

export const triage = tool({
  title: "Sort the inbox",
  description: "Asks what to do with each text file of the inbox, and moves it into the folder of that choice.",
  output: Sorted,
  annotations: { destructiveHint: false },

  async call() {
    const names = (await readdir("/inbox")).filter((name) => name.endsWith(".txt")).map((name) => name.slice(0, -4));
    const sorted: z.infer<typeof Sorted> = { moved: [] };
    if (names.length === 0) return reply("the inbox is empty", sorted);
    const form = z.object(Object.fromEntries(names.map((name) => [name, Choice])));
    const choices = ask("triage", "What shall happen to these files?", form);
    if (choices === null) throw new ToolError("nothing was sorted: you gave no answer");
    effects(); // from here on the host does not run the call again
    for (const [name, to] of Object.entries(choices)) {
      const file = `${name}.txt`;
      await mkdir(`/inbox/${to}`, { recursive: true });
      if ((await readdir(`/inbox/${to}`)).includes(file)) {
        throw new ToolError(`/inbox/${to}/${file} exists already; ${file} stays in the inbox`);
      }
      await rename(`/inbox/${file}`, `/inbox/${to}/${file}`);
      sorted.moved.push({ file, to });
      progress(sorted.moved.length, names.length, `${name}: ${to}`);
    }
    return reply(`${sorted.moved.length} files sorted`, sorted);
  },
});
