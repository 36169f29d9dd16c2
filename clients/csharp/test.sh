# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

csharp_language="C#"
csharp_wire="framed binary"
csharp_options=()
csharp_driver=(mono "$work/csharp/driver.exe")
csharp_build() {
    clients/csharp/pack.sh "$work/csharp/packages"
    local compile=(mcs -langversion:7.2 -r:Mono.Security -warnaserror)
    "${compile[@]}" "-out:$work/csharp/driver.exe" clients/csharp/src/*.cs clients/csharp/tests/Driver.cs
    "${compile[@]}" "-out:$work/csharp/tests.exe" clients/csharp/src/*.cs clients/csharp/tests/{FakeGateway,Tests,*Test}.cs
    STRAIT_BIN=$STRAIT_BIN mono "$work/csharp/tests.exe"
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
    cmp LICENSE "$project/StraitFs.0.1.0/LICENSE"
}
