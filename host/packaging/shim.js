#!/usr/bin/env node
// Starts the program of the package for this platform. It has no logic of its own: streams, signals and
// the exit status are those of the program.
"use strict";

const { spawn } = require("node:child_process");
const { isatty } = require("node:tty");

const PACKAGES = { "linux x64": "SCOPE/linux-x64" };

// The path of the program, or an error that says what to do.
function find(platform, arch, resolve) {
  const name = PACKAGES[`${platform} ${arch}`];
  if (!name) {
    throw new Error(
      `there is no program for ${platform} on ${arch}, only for ${Object.keys(PACKAGES).join(", ")}; ` +
        "build it from source: REPOSITORY",
    );
  }
  try {
    return resolve(`${name}/bin/toolyard`);
  } catch {
    throw new Error(
      `the package ${name} is not installed; install toolyard again with optional dependencies ` +
        "(npm install --include=optional toolyard)",
    );
  }
}

function main() {
  let program;
  try {
    program = find(process.platform, process.arch, require.resolve);
  } catch (error) {
    console.error(`toolyard: ${error.message}`);
    process.exit(1);
  }
  const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
  // A terminal sends its signals to the program as well, and a second one would end it without a drain.
  const terminal = [0, 1, 2].some((stream) => isatty(stream));
  for (const signal of ["SIGINT", "SIGQUIT", "SIGHUP"]) {
    process.on(signal, () => terminal || child.kill(signal));
  }
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  child.on("error", (error) => {
    console.error(`toolyard: cannot start ${program}: ${error.message}; install toolyard again`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (!signal) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

module.exports = { find };
if (require.main === module) main();
