# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

cpp_language=C++
cpp_wire="framed binary"

# The package is the directory, as `git archive` packs it.
cpp_build() {
    local source=$work/cpp/source
    mkdir -p "$source"
    git -C clients/cpp ls-files | tar -C clients/cpp -cf - -T - | tar -C "$source" -xf -
    cmake -S "$source" -B "$work/cpp/build" -DCMAKE_BUILD_TYPE=Debug >/dev/null
    cmake --build "$work/cpp/build" --parallel "$(nproc)" -- --quiet
    cmake --install "$work/cpp/build" --prefix "$work/cpp/prefix" >/dev/null
}

# The page's project, by CMake, and by pkg-config. The page's code becomes one program, with its headers first.
cpp_quick_start() {
    local project=$work/cpp/example flags
    rm -rf "$project"
    cmp LICENSE "$work/cpp/prefix/share/doc/strait/LICENSE"
    readme cpp "$1" "cpp*=$project/code" "cmake=$project/CMakeLists.txt"
    {
        grep '^#include ' "$project/code"
        echo 'int main() {'
        grep -v '^#include ' "$project/code"
        echo '}'
    } >"$project/program.cpp"
    (
        cd "$project"
        cmake -S . -B build "-DCMAKE_PREFIX_PATH=$work/cpp/prefix"
        cmake --build build
        build/program
        read -ra flags < <(PKG_CONFIG_PATH=$(echo "$work"/cpp/prefix/lib*/pkgconfig) pkg-config --cflags --libs strait-cpp)
        g++ -std=c++17 -o program program.cpp "${flags[@]}"
        ./program
    )
}
