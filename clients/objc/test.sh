# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

objc_language="Objective-C"
objc_wire="framed binary"
objc_options=()
objc_driver=("$work/objc/driver")

# objc_compile RESULT ARGUMENTS...: a program that uses the library, with all warnings.
objc_compile() {
    local flags libraries result=$1
    shift
    read -ra flags < <(gnustep-config --objc-flags)
    read -ra libraries < <(gnustep-config --base-libs)
    # GNUstep's headers expand to `defined`.
    gcc -std=gnu11 "${flags[@]}" -Wextra -Werror -Wno-expansion-to-defined -MF /dev/null -o "$result" "$@" \
        -lStraitKit "${libraries[@]}"
}

objc_build() {
    local built=$work/objc/build program
    make -s -C clients/objc "GNUSTEP_BUILD_DIR=$built"
    for program in driver wire; do
        objc_compile "$work/objc/$program" -Iclients/objc "-L$built/obj" "-Wl,-rpath,$built/obj" "clients/objc/tests/$program.m"
    done
    "$work/objc/wire"
}

# By the sources' own tool, into an empty directory.
objc_quick_start() {
    local project=$work/objc/example
    rm -rf "$project"
    readme objc "$1" "objc=$project/example.m"
    tar -C clients/objc -cf - GNUmakefile LICENSE StraitKit | tar -C "$project" -xf - --one-top-level=source
    make -s -C "$project/source" install "DESTDIR=$project/root"
    local installed=$project/root/usr/local
    cmp LICENSE "$installed/share/GNUstep/Documentation/StraitKit/LICENSE"
    objc_compile "$project/example" "-I$installed/include/GNUstep" "-L$installed/lib" "$project/example.m"
    LD_LIBRARY_PATH=$installed/lib "$project/example"
}
