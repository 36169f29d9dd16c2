# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

perl_language="Perl"
perl_wire="framed binary"
perl_options=()
perl_driver=(perl -Iclients/perl/lib clients/perl/tests/driver.pl)
# Below $work/perl is also the generated code that the story uses.
perl_build() {
    podchecker -warnings clients/perl/lib/Strait/FS.pm clients/perl/lib/Strait/FS/{Error,Handle,Info,Listing}.pm
    rm -rf "$work/perl/package"
    cp -r clients/perl "$work/perl/package"
    (cd "$work/perl/package" && perl Makefile.PL && make && make test && make dist) >&2
}

# By MakeMaker into an empty directory.
perl_quick_start() {
    local project=$work/perl/example package=Strait-FS-0.1.0
    rm -rf "$project"
    readme perl "$1" "perl=$project/example.pl"
    tar -xOf "$work/perl/package/$package.tar.gz" "$package/LICENSE" | cmp LICENSE -
    (
        cd "$project"
        tar -xf "$work/perl/package/$package.tar.gz"
        (cd "$package" && perl Makefile.PL INSTALL_BASE="$project/installed" && make install) >&2
        rm -rf "$package"
        PERL5LIB=$project/installed/lib/perl5 perl example.pl
    )
}
