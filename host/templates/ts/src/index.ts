import { ask, plugin, progress, reply, sleep, type Result } from "./toolyard.js";

/** The arguments, as the schema `input` below describes them. */
interface Greet {
  name?: string;
}

export const tools = plugin({
  "{{name}}": {
    title: "Greet",
    description: "Greets somebody, and asks for the name if none is given.",
    input: {
      type: "object",
      properties: { name: { type: "string", minLength: 1, description: "Whom to greet." } },
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

function greet({ name = askForName() }: Greet): Result {
  for (let step = 1; step <= 3; step += 1) {
    sleep(20); // here would be the work
    progress(step, 3, "thinking of something nice");
  }
  const greeting = `Hello, ${name}!`;
  return reply(greeting, { greeting });
}

function askForName(): string {
  const answer = ask<{ name: string }>("name", "Whom shall I greet?", { name: { type: "string", title: "Name" } });
  // What is thrown is an error result, which the model reads.
  if (answer === null) throw new Error("There is nobody to greet: the user gave no name.");
  return answer.name;
}
