# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154,SC2164 # its variables and `set -e`

# One package in two browsers, each with its own rows.
clients=(browser firefox)

browser_language="JavaScript in Chromium"
browser_wire="binary over HTTP"
browser_options=(--page)
browser_driver=(.venv/bin/python tests/languages/browser_driver.py chromium "${ports[pages]}" clients/browser test/driver.html)
browser_build() {
    node --test clients/browser/test/states.test.js
    (cd clients/browser && npm pack --silent --pack-destination "$work/browser" >/dev/null)
}

# page_quick_start BROWSER HOST:PORT: by npm into an empty directory; the page shows "done".
page_quick_start() {
    local project=$work/browser/example
    rm -rf "$project"
    readme browser "$2" "html=$project/index.html"
    npm install --prefix "$project" --offline --no-audit --no-fund --silent "$work/browser/strait-fs-browser-0.1.0.tgz"
    cmp LICENSE "$project/node_modules/strait-fs-browser/LICENSE"
    cat >>"$project/index.html" <<'EOF'
<script>
  const tell = (text) => fetch("/answer", { method: "POST", body: text });
  addEventListener("error", (event) => tell(event.message));
  addEventListener("unhandledrejection", (event) => tell(String(event.reason)));
  const result = document.getElementById("result");
  new MutationObserver(() => tell(result.textContent)).observe(result, { childList: true });
</script>
EOF
    .venv/bin/python tests/languages/browser_driver.py "$1" "${ports[pages]}" "$project" index.html --wait
}
browser_quick_start() { page_quick_start chromium "$1"; }

firefox_language="JavaScript in Firefox"
firefox_wire=$browser_wire
firefox_options=("${browser_options[@]}")
firefox_driver=("${browser_driver[@]/#chromium/firefox}")
firefox_build() { :; } # the same package
firefox_quick_start() { page_quick_start firefox "$1"; }
