// Compiles ../story.st by Amber, and runs it: node run.js HOST PORT DIRECTORY
const fs = require("node:fs");
const path = require("node:path");
const requirejs = require("requirejs");

const amber = path.dirname(require.resolve("@ambers/lang/package.json"));
requirejs.config({
  nodeRequire: require,
  paths: { amber: `${amber}/base`, "amber/core": `${amber}/src` },
  map: { "*": { amber_core: "amber/core" } },
});

async function run({ api, globals }) {
  await api.initialize();
  const source = fs.readFileSync(path.join(__dirname, "../story.st"), "utf8");
  globals.Importer._new()._import_(source._stream());
  await globals.Story._main_(process.argv.slice(2));
}

// In a function of its own: require.js calls no async function.
requirejs(["amber/lang", "amber/core/Platform-Node"], (boot) => run(boot));
