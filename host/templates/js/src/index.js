import { ask, plugin, progress, reply, ToolError } from "./toolyard.js";

export const tools = plugin({
  "{{name}}": {
    title: "Greet",
    description: "Greets a person; asks the user for the name if it is absent.",
    input: {
      type: "object",
      properties: { name: { type: "string", minLength: 1, description: "The name to greet." } },
      additionalProperties: false,
    },
    output: {
      type: "object",
      properties: { greeting: { type: "string" } },
      required: ["greeting"],
    },
    annotations: { readOnlyHint: true },
    call: greet,
  },
});

async function greet({ name = askForName() }) {
  for (let step = 1; step <= 3; step += 1) {
    await new Promise((done) => setTimeout(done, 20)); // the real work goes here
    progress(step, 3, "thinking of something nice");
  }
  const greeting = `Hello, ${name}!`;
  return reply(greeting, { greeting });
}

function askForName() {
  const answer = ask("name", "Whom shall I greet?", { name: { type: "string", title: "Name" } });
  // A thrown error becomes an error result, which the model reads.
  if (answer === null) throw new ToolError("There is no name to greet: the user gave none.");
  return answer.name;
}
