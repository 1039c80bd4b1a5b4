import { encode } from "fast-png";
import * as z from "zod";
import { image, textBlock, tool } from "./toolyard.js";

const [WIDTH, HEIGHT, MARGIN] = [320, 200, 10];
const INK = [0x2b, 0x6c, 0xb0];

const Bar = z.object({ label: z.string(), value: z.number().min(0) });
type Bar = z.infer<typeof Bar>;

export const chart = tool({
  title: "Chart",
  description: "Draws a bar chart as a PNG image.",
  input: z.object({
    title: z.string().describe("The title of the chart."),
    values: z.array(Bar).min(1).max(24).describe("The bars, from left to right."),
  }),
  annotations: { readOnlyHint: true },

  call({ title, values }) {
    const largest = values.reduce((one, next) => (next.value > one.value ? next : one));
    const count = values.length === 1 ? "1 bar" : `${values.length} bars`;
    const text = `${count}, the largest is "${largest.label}" with ${largest.value}`;
    return [image(draw(title, values, largest.value || 1)), textBlock(text)];
  },
});

function draw(title: string, values: Bar[], largest: number): Uint8Array {
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
