import * as z from "zod";
import { ask, plugin, progress, reply, tool, ToolError } from "./toolyard.js";

const greeting = z.object({ greeting: z.string() });

export const tools = plugin({
  "{{name}}": tool({
    title: "Greet",
    description: "Greets a person; asks the user for the name if it is absent.",
    input: z.object({ name: z.string().min(1).optional().describe("The name to greet.") }),
    output: greeting,
    annotations: { readOnlyHint: true },
    async call({ name = askForName() }) {
      for (let step = 1; step <= 3; step += 1) {
        await new Promise<void>((done) => setTimeout(done, 20)); // the real work goes here
        progress(step, 3, "thinking of something nice");
      }
      const text = `Hello, ${name}!`;
      return reply(text, { greeting: text } satisfies z.infer<typeof greeting>);
    },
  }),
});

function askForName(): string {
  const answer = ask("name", "Whom shall I greet?", z.object({ name: z.string().meta({ title: "Name" }) }));
  // A thrown error becomes an error result, which the model reads.
  if (answer === null) throw new ToolError("There is no name to greet: the user gave none.");
  return answer.name;
}
