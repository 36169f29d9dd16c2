# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

kotlin_language="Kotlin"
kotlin_wire="framed binary"
kotlin_options=(--no-requests --cancels)
kotlin_driver=(java -Xmx512m -cp "$work/kotlin/driver" fs.strait.kotlin.DriverKt)
kotlin_build() {
    local client=clients/kotlin/target
    mvn -q -B -f clients/java/pom.xml -Dmaven.test.skip=true install
    mvn -q -B -f clients/kotlin/pom.xml install "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath" \
        "-Dmdep.outputFile=$work/kotlin-classes"
    kotlin_driver[3]=$client/classes:$client/test-classes:$(cat "$work/kotlin-classes")
}

# The page's project, by Maven.
kotlin_quick_start() {
    local project=$work/kotlin/example
    rm -rf "$project"
    readme kotlin "$1" "kotlin=$project/src/main/kotlin/Main.kt" "xml=$project/pom.xml"
    maven "$project" org.jetbrains.kotlin:kotlin-maven-plugin:2.2.21:compile
    jar -tf clients/kotlin/target/strait-fs-kotlin-0.1.0.jar | grep -x META-INF/LICENSE
    java -cp "$project/target/classes:$(cat "$project/classes")" MainKt
}
