import { encode } from "fast-png";
import { image, textBlock } from "./toolyard.js";

const [WIDTH, HEIGHT, MARGIN] = [320, 200, 10];
const INK = [0x2b, 0x6c, 0xb0];

export const chart = {
  title: "Chart",
  description: "Draws a bar chart as a PNG image.",
  input: {
    type: "object",
    properties: {
      title: { type: "string", description: "The title of the chart." },
      values: {
        type: "array",
        description: "The bars, from left to right.",
        minItems: 1,
        maxItems: 24,
        items: {
          type: "object",
          properties: { label: { type: "string" }, value: { type: "number", minimum: 0 } },
          required: ["label", "value"],
        },
      },
    },
    required: ["title", "values"],
  },
  annotations: { readOnlyHint: true },

  call({ title, values }) {
    const largest = values.reduce((one, next) => (next.value > one.value ? next : one));
    const count = values.length === 1 ? "1 bar" : `${values.length} bars`;
    const text = `${count}, the largest is "${largest.label}" with ${largest.value}`;
    return [image(draw(title, values, largest.value || 1)), textBlock(text)];
  },
};

function draw(title, values, largest) {
  const data = new Uint8Array(WIDTH * HEIGHT * 3).fill(255);
  const column = Math.floor((WIDTH - 2 * MARGIN) / values.length);
  values.forEach(({ value }, number) => {
    const left = MARGIN + number * column;
    const top = HEIGHT - MARGIN - Math.round((value / largest) * (HEIGHT - 2 * MARGIN));
    for (let y = top; y < HEIGHT - MARGIN; y += 1) {
      for (let x = left; x < left + column - 2; x += 1) data.set(INK, 3 * (y * WIDTH + x));
    }
  });
  return encode({ width: WIDTH, height: HEIGHT, channels: 3, data, text: { Title: title } });
}
