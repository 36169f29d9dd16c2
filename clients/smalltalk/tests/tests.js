// Runs tests.st: node tests.js
const { start } = require("../amber.js");

start("strait/Strait", "amber/core/SUnit").then(({ fileIn }) => fileIn(`${__dirname}/tests.st`));
