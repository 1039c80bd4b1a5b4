import * as z from "zod";
import { reply, tool, ToolError } from "./toolyard.js";

const City = z.string().min(1).describe("The name of the city.");
const Weather = z.object({ city: z.string(), celsius: z.number(), sky: z.string() });

export const weather = tool({
  title: "Weather",
  description: "Says how warm it is in a city, and what the sky is like.",
  input: z.object({ city: City }),
  output: Weather,
  annotations: { readOnlyHint: true, openWorldHint: true },

  async call({ city }) {
    const now = await weatherIn(city);
    return reply(`${now.city}: ${now.celsius} °C, ${now.sky}`, now);
  },
});

async function weatherIn(city: string) {
  // The host adds the key to the request.
  const response = await fetch(`${process.env.WEATHER_URL}/v1/now?city=${encodeURIComponent(city)}`);
  if (!response.ok) {
    throw new ToolError(`the weather service answered ${response.status}: ${(await response.text()).trim()}`);
  }
  return Weather.parse(await response.json());
}

export const compare = tool({
  title: "Compare",
  description: "Says which of two cities is the warmer one.",
  input: z.object({ a: City, b: City }),
  annotations: { readOnlyHint: true, openWorldHint: true },

  async call({ a, b }) {
    const both = await Promise.all([weatherIn(a), weatherIn(b)]);
    const [warm, cold] = both.sort((one, other) => other.celsius - one.celsius);
    return `${warm.city} is warmer than ${cold.city}, by ${warm.celsius - cold.celsius} °C`;
  },
});
