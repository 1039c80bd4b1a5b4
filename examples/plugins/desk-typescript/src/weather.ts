import * as z from "zod";
import { reply, tool, ToolError } from "./toolyard.js";

const Weather = z.object({ city: z.string(), celsius: z.number(), sky: z.string() });

export const weather = tool({
  title: "Weather",
  description: "Says how warm it is in a city, and what the sky is like.",
  input: z.object({ city: z.string().min(1).describe("The name of the city.") }),
  output: Weather,
  annotations: { readOnlyHint: true, openWorldHint: true },

  async call({ city }) {
    // The host adds the key to the request.
    const response = await fetch(`${process.env.WEATHER_URL}/v1/now?city=${encodeURIComponent(city)}`);
    if (!response.ok) {
      throw new ToolError(`the weather service answered ${response.status}: ${(await response.text()).trim()}`);
    }
    const now = Weather.parse(await response.json());
    return reply(`${now.city}: ${now.celsius} °C, ${now.sky}`, now);
  },
});
