import { reply, ToolError } from "./toolyard.js";

export const weather = {
  title: "Weather",
  description: "Says how warm it is in a city, and what the sky is like.",
  input: {
    type: "object",
    properties: { city: { type: "string", minLength: 1, description: "The name of the city." } },
    required: ["city"],
  },
  output: {
    type: "object",
    properties: { city: { type: "string" }, celsius: { type: "number" }, sky: { type: "string" } },
    required: ["city", "celsius", "sky"],
  },
  annotations: { readOnlyHint: true, openWorldHint: true },

  async call({ city }) {
    // The host adds the key to the request.
    const response = await fetch(`${process.env.WEATHER_URL}/v1/now?city=${encodeURIComponent(city)}`);
    if (!response.ok) {
      throw new ToolError(`the weather service answered ${response.status}: ${(await response.text()).trim()}`);
    }
    const now = await response.json();
    return reply(`${now.city}: ${now.celsius} °C, ${now.sky}`, { city: now.city, celsius: now.celsius, sky: now.sky });
  },
};
