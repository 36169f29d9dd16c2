"""readme.py README ADDRESS LANGUAGE=FILE...: writes the page's first block of each language to that file.

LANGUAGE*=FILE writes all blocks of the language, one behind the other. The addresses of the examples
become ADDRESS."""

import re
import sys
from pathlib import Path

page, address, *blocks = sys.argv[1:]
text = Path(page).read_text()
for block in blocks:
    language, file = block.split("=")
    name = language.removesuffix("*")
    found = re.findall(rf"^```{name}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no block of {name}"
    code = found[0] if name == language else "".join(found)
    target = Path(file)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(code.replace("127.0.0.1:9090", address))
