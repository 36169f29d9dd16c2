# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

php_language=PHP
php_wire="framed binary"
php_options=()
php_project=$work/php/project
php_strict=(php -d error_reporting=-1 -d display_errors=stderr)
php_driver=("${php_strict[@]}" clients/php/tests/driver.php "$php_project/vendor/autoload.php")

# Without the network, and without the user's settings.
php_composer() {
    COMPOSER_HOME=$work/php/composer COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_DISABLE_NETWORK=1 \
        composer --no-interaction --quiet "$@"
}

# php_install DIRECTORY: the package's file into an empty project.
php_install() {
    rm -rf "$1"
    mkdir -p "$1"
    echo '{}' >"$1/composer.json"
    php_composer config -d "$1" repositories.strait artifact "$work/php/packages"
    php_composer require -d "$1" strait/strait-fs
}

php_build() {
    php_composer validate --strict --no-check-version -d clients/php
    rm -rf "$work/php/packages"
    php_composer archive -d clients/php --format=zip --dir "$work/php/packages"
    php_install "$php_project"
    "${php_strict[@]}" clients/php/tests/wire.php "$php_project/vendor/autoload.php"
    "${php_strict[@]}" clients/php/tests/faults.php "$php_project/vendor/autoload.php"
}

php_quick_start() {
    local example=$work/php/example
    php_install "$example"
    cmp LICENSE "$example/vendor/strait/strait-fs/LICENSE"
    readme php "$1" "php=$example/example.php"
    (cd "$example" && "${php_strict[@]}" example.php)
    "${php_strict[@]}" clients/php/tests/streams.php "$php_project/vendor/autoload.php" "$1"
}
