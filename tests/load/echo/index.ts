import * as z from "zod";
import { plugin, tool } from "./toolyard.js";

export const tools = plugin({
  echo: tool({
    description: "Returns its text.",
    input: z.object({ text: z.string() }),
    call: ({ text }) => text,
  }),
});
