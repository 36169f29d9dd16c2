// Starts Amber in this process, with modules of its own module system.
const fs = require("node:fs");
const path = require("node:path");
const requirejs = require("requirejs");

const amber = path.dirname(require.resolve("@ambers/lang/package.json"));
requirejs.config({
  nodeRequire: require,
  paths: { amber: `${amber}/base`, "amber/core": `${amber}/src`, strait: path.join(__dirname, "lib") },
  map: { "*": { amber_core: "amber/core" } },
});

const load = (...modules) => new Promise((resolve, reject) => requirejs(modules, resolve, reject));

/** Answers Amber's globals, and a function that compiles and evaluates a file of Smalltalk. */
exports.start = async (...modules) => {
  const boot = await load("amber/lang", "amber/core/Platform-Node", ...modules);
  await boot.api.initialize();
  const fileIn = (file) => boot.globals.Importer._new()._import_(fs.readFileSync(file, "utf8")._stream());
  return { globals: boot.globals, fileIn };
};
