// Compiles src/*.st to lib/Strait.js, a module of Amber: node compile.js
const fs = require("node:fs");
const path = require("node:path");
const { start } = require("./amber.js");

const FILES = ["Errors", "Wire", "Uri", "Connection", "Session", "Streams", "Values", "Transfer", "Client"];

start().then(({ globals, fileIn }) => {
  for (const file of FILES) fileIn(path.join(__dirname, "src", `${file}.st`));
  const strait = globals.Smalltalk._packageAt_ifAbsent_("Strait", () => undefined);
  const module = globals.String._streamContents_((stream) => globals.AmdExporter._new()._exportPackage_on_(strait, stream));
  fs.mkdirSync(path.join(__dirname, "lib"), { recursive: true });
  fs.writeFileSync(path.join(__dirname, "lib/Strait.js"), module);
});
