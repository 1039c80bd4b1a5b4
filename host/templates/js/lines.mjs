// Notes for each line of the bundle in which file and line the author wrote it, for the places that
// the library logs with an error. Lines of the library and of packages are left out.
import { appendFileSync, readFileSync } from "node:fs";
import { SourceMap } from "node:module";
import { dirname, join } from "node:path";

const LEFT_OUT = /(^|\/)node_modules\/|^src\/(toolyard|engine|timers|node-fs)\.js$/;

const bundle = process.argv[2];
const map = new SourceMap(JSON.parse(readFileSync(`${bundle}.map`, "utf8")));
const files = [];
const lines = readFileSync(bundle, "utf8").split("\n").map((text, line) => {
  const { originalSource, originalLine } = map.findEntry(line, Math.max(0, text.search(/\S/)));
  const file = originalSource && join(dirname(bundle), originalSource);
  if (!file || LEFT_OUT.test(file)) return 0;
  if (!files.includes(file)) files.push(file);
  return [files.indexOf(file), originalLine + 1];
});
appendFileSync(bundle, `globalThis.toolyardLines = ${JSON.stringify({ files, lines: [0, ...lines] })};\n`);
