import * as z from "zod";
import { CannotContinue, continueWith, progress, reply, restored, tool } from "./toolyard.js";

/** Each run of the task does this many parts. */
const PARTS_PER_RUN = 2;

/** The state between the runs, and the result. */
const Steps = z.object({
  done: z.array(z.int()).describe("The numbers of the parts that are done."),
  runs: z.int().describe("The number of runs so far."),
});
type Steps = z.infer<typeof Steps>;

export const steps = tool({
  title: "Work in parts",
  description: "Does a number of parts, and continues in a fresh run after every two of them.",
  input: z.object({ parts: z.int().min(1).max(1000).describe("The number of parts.") }),
  output: Steps,
  annotations: { readOnlyHint: true, openWorldHint: false },

  call({ parts }) {
    const steps = restored<Steps>() ?? { done: [], runs: 0 };
    steps.runs += 1;
    let refusal: string | null = null;
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
});
