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
    const now = await weatherIn(city);
    return reply(`${now.city}: ${now.celsius} °C, ${now.sky}`, { city: now.city, celsius: now.celsius, sky: now.sky });
  },
};

async function weatherIn(city) {
  // The host adds the key to the request.
  const response = await fetch(`${process.env.WEATHER_URL}/v1/now?city=${encodeURIComponent(city)}`);
  if (!response.ok) {
    throw new ToolError(`the weather service answered ${response.status}: ${(await response.text()).trim()}`);
  }
  return response.json();
}

export const compare = {
  title: "Compare",
  description: "Says which of two cities is the warmer one.",
  input: {
    type: "object",
    properties: { a: { type: "string", minLength: 1 }, b: { type: "string", minLength: 1 } },
    required: ["a", "b"],
  },
  annotations: { readOnlyHint: true, openWorldHint: true },

  async call({ a, b }) {
    const both = await Promise.all([weatherIn(a), weatherIn(b)]);
    const [warm, cold] = both.sort((one, other) => other.celsius - one.celsius);
    return `${warm.city} is warmer than ${cold.city}, by ${warm.celsius - cold.celsius} °C`;
  },
};
