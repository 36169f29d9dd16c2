#!/usr/bin/env node
// Evaluates a file of Smalltalk with the library: strait-smalltalk FILE.st [ARGUMENT...]
const { start } = require("./amber.js");

start("strait/Strait").then(({ fileIn }) => fileIn(process.argv[2]));
