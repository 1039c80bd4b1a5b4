import { plugin } from "./toolyard.js";
import { chart } from "./chart.js";
import { steps } from "./steps.js";
import { triage } from "./triage.js";
import { compare, weather } from "./weather.js";

export const tools = plugin({ weather, compare, chart, triage, steps });
