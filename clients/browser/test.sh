# Sourced by scripts/test-languages.sh, in whose words it is written.
# shellcheck shell=bash disable=SC2034,SC2154 # its variables

browser_language="JavaScript in Chromium"
browser_wire="binary over HTTP"
browser_options=(--repeats --no-restarts)
browser_driver=(.venv/bin/python tests/languages/browser_driver.py "${ports[pages]}" clients/browser test/driver.html)
browser_build() {
    node --test clients/browser/test/states.test.js
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
