# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

ruby_language=Ruby
ruby_wire="framed binary"
ruby_options=()
# Warnings are errors.
ruby_strict=(ruby -w -r ./clients/ruby/tests/strict.rb)
ruby_driver=("${ruby_strict[@]}" -I clients/ruby/lib clients/ruby/tests/driver.rb)
ruby_build() {
    local test
    for test in clients/ruby/tests/test_*.rb; do
        "${ruby_strict[@]}" -I clients/ruby/lib "$test"
    done
    (cd clients/ruby && gem build --strict --output "$work/ruby/strait-fs.gem" strait-fs.gemspec)
}

# By RubyGems into an empty directory.
ruby_quick_start() {
    local project=$work/ruby/example
    rm -rf "$project"
    readme ruby "$1" "ruby=$project/example.rb"
    gem install --local --no-document --install-dir "$project/gems" "$work/ruby/strait-fs.gem"
    cmp LICENSE "$project/gems/gems/strait-fs-0.1.0/LICENSE"
    GEM_HOME=$project/gems GEM_PATH=$project/gems "${ruby_strict[@]}" "$project/example.rb"
}
