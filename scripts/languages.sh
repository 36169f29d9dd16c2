# scripts/languages.sh: clients whose shared cases are driven from tests/languages, for scripts/test-languages.sh.
# shellcheck shell=bash disable=SC2034,SC2154 # its variables

# readme LANGUAGE ADDRESS BLOCK=FILE...: code of a client's page.
readme() {
    local page=clients/$1/README.md
    shift
    .venv/bin/python tests/languages/readme.py "$page" "$@"
}

kotlin_driver=(java -Xmx512m -cp "$work/kotlin/driver" fs.strait.kotlin.DriverKt)
kotlin_build() {
    local client=clients/kotlin/target
    mvn -q -B -f clients/java/pom.xml -Dmaven.test.skip=true install
    mvn -q -B -f clients/kotlin/pom.xml install "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath" \
        "-Dmdep.outputFile=$work/kotlin-classes"
    kotlin_driver[3]=$client/classes:$client/test-classes:$(cat "$work/kotlin-classes")
}

# The page's project, in an empty repository. Packages come from this user's, which has those of the client's build.
kotlin_quick_start() {
    local project=$work/kotlin/example plugins=org.apache.maven.plugins
    rm -rf "$project"
    readme kotlin "$1" "kotlin=$project/src/main/kotlin/Main.kt" "xml=$project/pom.xml"
    cat >"$project/settings.xml" <<EOF
<settings>
  <localRepository>$project/repository</localRepository>
  <mirrors>
    <mirror><id>user</id><mirrorOf>*</mirrorOf><url>file://$HOME/.m2/repository</url></mirror>
  </mirrors>
</settings>
EOF
    mvn -q -B -Dkotlin.compiler.daemon=false -s "$project/settings.xml" -f "$project/pom.xml" \
        org.jetbrains.kotlin:kotlin-maven-plugin:2.2.21:compile \
        "$plugins:maven-dependency-plugin:3.8.1:build-classpath" "-Dmdep.outputFile=$project/classes"
    java -cp "$project/target/classes:$(cat "$project/classes")" MainKt
}

csharp_driver=(mono "$work/csharp/driver.exe")
csharp_build() {
    mkdir -p "$work/csharp"
    clients/csharp/pack.sh "$work/csharp/packages"
    mcs -langversion:7.2 -warnaserror "-out:$work/csharp/driver.exe" clients/csharp/src/*.cs clients/csharp/tests/Driver.cs
}

# By NuGet's client into an empty directory.
csharp_quick_start() {
    local project=$work/csharp/example library=StraitFs.0.1.0/lib/net45
    rm -rf "$project"
    readme csharp "$1" "csharp=$project/Program.cs"
    (
        cd "$project"
        nuget install StraitFs -Source "$work/csharp/packages"
        mcs "-r:$library/StraitFs.dll" Program.cs
        MONO_PATH=$library mono Program.exe
    )
}

browser_driver=(.venv/bin/python tests/languages/browser_driver.py "${ports[pages]}" clients/browser test/driver.html)
browser_build() {
    mkdir -p "$work/browser"
    (cd clients/browser && npm pack --silent --pack-destination "$work/browser" >/dev/null)
}

# By npm into an empty directory; the page shows "done".
browser_quick_start() {
    local project=$work/browser/example
    rm -rf "$project"
    readme browser "$1" "html=$project/index.html"
    npm install --prefix "$project" --offline --no-audit --no-fund --silent "$work/browser/strait-fs-browser-0.1.0.tgz"
    cat >>"$project/index.html" <<'EOF'
<script>
  const tell = (text) => fetch("/answer", { method: "POST", body: text });
  addEventListener("error", (event) => tell(event.message));
  addEventListener("unhandledrejection", (event) => tell(String(event.reason)));
  const result = document.getElementById("result");
  new MutationObserver(() => tell(result.textContent)).observe(result, { childList: true });
</script>
EOF
    .venv/bin/python tests/languages/browser_driver.py "${ports[pages]}" "$project" index.html --wait
}
