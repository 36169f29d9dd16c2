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
  const { api, globals } = await load("amber/lang", "amber/core/Platform-Node", ...modules);
  await api.initialize();
  const fileIn = (file) => {
    const importer = globals.Importer._new();
    try {
      importer._import_(fs.readFileSync(file, "utf8")._stream());
    } catch (error) {
      error.message += `\nin ${file}, in:\n${importer._lastChunk() ?? ""}`;
      throw error;
    }
  };
  return { globals, fileIn };
};
