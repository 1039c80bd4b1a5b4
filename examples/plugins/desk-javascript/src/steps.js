import { CannotContinue, continueWith, progress, reply, restored } from "./toolyard.js";

/** Each run of the task does this many parts. */
const PARTS_PER_RUN = 2;

export const steps = {
  title: "Work in parts",
  description: "Does a number of parts, and continues in a fresh run after every two of them.",
  input: {
    type: "object",
    properties: { parts: { type: "integer", minimum: 1, maximum: 1000, description: "The number of parts." } },
    required: ["parts"],
    additionalProperties: false,
  },
  output: {
    type: "object",
    properties: {
      done: { type: "array", items: { type: "integer" }, description: "The numbers of the parts that are done." },
      runs: { type: "integer", description: "The number of runs so far." },
    },
    required: ["done", "runs"],
  },
  annotations: { readOnlyHint: true, openWorldHint: false },

  call({ parts }) {
    const steps = restored() ?? { done: [], runs: 0 };
    steps.runs += 1;
    let refusal = null;
    while (steps.done.length < parts) {
      const part = steps.done.length + 1;
      steps.done.push(part); // the real work goes here
      progress(part, parts);
      if (refusal === null && part < parts && part % PARTS_PER_RUN === 0) {
        try {
          continueWith(steps);
        } catch (error) {
          // The call does not resume, so this run does all parts.
          if (!(error instanceof CannotContinue)) throw error;
          refusal = error.message;
        }
      }
    }
    const text = `parts: ${parts}, runs: ${steps.runs}`;
    return reply(refusal === null ? text : `${text}; ${refusal}`, steps);
  },
};
