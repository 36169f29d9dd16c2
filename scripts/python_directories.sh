# Directories with Python, for scripts that format and check it.
# shellcheck shell=bash disable=SC2034 # used by others
readonly PYTHON=(clients/python scripts bench tests/testkit tests/wires tests/rest tests/languages examples
    crates/libhdfs crates/libstrait crates/strait)
