# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

# Two packages, of which the second needs the first.
clients=(java hadoop)

java_language=Java
java_wire="framed binary"
java_build() {
    mvn -q -B -f clients/java/pom.xml -Dmaven.test.skip=true install
}

# java_project DIRECTORY PAGE HOST:PORT: the page's project, by Maven. The page's code becomes one program, with its
# imports first.
java_project() {
    local project=$1
    rm -rf "$project"
    readme "$2" "$3" "java*=$project/code" "xml=$project/pom.xml"
    mkdir -p "$project/src/main/java"
    {
        grep '^import ' "$project/code"
        echo 'class Main { public static void main(String[] arguments) throws Exception {'
        grep -v '^import ' "$project/code"
        echo '}}'
    } >"$project/src/main/java/Main.java"
    maven "$project" org.apache.maven.plugins:maven-compiler-plugin:3.14.0:compile
    (cd "$project" && java -Xmx512m -ea -cp "target/classes:$(cat classes)" Main)
}

java_quick_start() {
    local project=$work/java/example
    java_project "$project" java "$1"
    # It has no dependencies.
    [[ $(cat "$project/classes") == "$project"/repository/*/strait-fs-0.1.0.jar ]]
}

hadoop_language=Hadoop
hadoop_wire=$java_wire
hadoop_build() {
    mvn -q -B -f clients/java/hadoop/pom.xml -Dmaven.test.skip=true install
}
hadoop_quick_start() { java_project "$work/hadoop/example" java/hadoop "$1"; }
