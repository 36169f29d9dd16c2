"""Text files, beside those that the built-in `open` makes."""

import io

import pytest


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_text_is_encoded_as_the_built_in_open_does(real, tmp_path, encoding):
    local = tmp_path / "x"
    for mode in ["w", "a"]:
        with (
            real.open("/x", mode, encoding=encoding) as text,
            local.open(mode, encoding=encoding) as builtin,
        ):
            assert text.tell() == builtin.tell()
            assert text.write("line\n") == builtin.write("line\n")
            assert text.tell() == builtin.tell()
            assert not text.seekable()
            with pytest.raises(io.UnsupportedOperation):
                text.seek(0)
    assert (tmp_path / "store" / "x").read_bytes() == local.read_bytes()
    with real.open("/x", encoding=encoding) as text:
        assert text.read() == "line\nline\n"
