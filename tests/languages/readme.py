"""readme.py README ADDRESS LANGUAGE=FILE...: writes the page's first block of each language to that file.

The addresses of the examples become ADDRESS."""

import re
import sys
from pathlib import Path

page, address, *blocks = sys.argv[1:]
text = Path(page).read_text()
for block in blocks:
    language, file = block.split("=")
    match = re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert match, f"{page} has no block of {language}"
    target = Path(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(match[1].replace("127.0.0.1:9090", address))
