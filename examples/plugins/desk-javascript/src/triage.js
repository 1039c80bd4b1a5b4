import { mkdir, readdir, rename } from "node:fs/promises";
import { ask, effects, progress, reply, ToolError } from "./toolyard.js";

const CHOICES = ["keep", "later", "trash"];

export const triage = {
  title: "Sort the inbox",
  description: "Asks what to do with each text file of the inbox, and moves it into the folder of that choice.",
  output: {
    type: "object",
    properties: {
      moved: {
        type: "array",
        items: {
          type: "object",
          properties: { file: { type: "string" }, to: { enum: CHOICES } },
          required: ["file", "to"],
        },
      },
    },
    required: ["moved"],
  },
  annotations: { destructiveHint: false },

  async call() {
    const names = (await readdir("/inbox")).filter((name) => name.endsWith(".txt")).map((name) => name.slice(0, -4));
    if (names.length === 0) return reply("the inbox is empty", { moved: [] });
    const fields = Object.fromEntries(names.map((name) => [name, { type: "string", enum: CHOICES }]));
    const choices = ask("triage", "What shall happen to these files?", fields);
    if (choices === null) throw new ToolError("nothing was sorted: you gave no answer");
    effects(); // from here on the host does not run the call again
    const moved = [];
    for (const name of names) {
      const [file, to] = [`${name}.txt`, choices[name]];
      await mkdir(`/inbox/${to}`, { recursive: true });
      if ((await readdir(`/inbox/${to}`)).includes(file)) {
        throw new ToolError(`/inbox/${to}/${file} exists already; ${file} stays in the inbox`);
      }
      await rename(`/inbox/${file}`, `/inbox/${to}/${file}`);
      moved.push({ file, to });
      progress(moved.length, names.length, `${name}: ${to}`);
    }
    return reply(`${moved.length} files sorted`, { moved });
  },
};
