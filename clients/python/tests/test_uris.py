"""URIs: the cases of every client language, and what `connect` makes of an address."""

import json

import cases
import gateways
import pytest

import strait

URIS = json.loads(cases.FILE.read_text())["uris"]


@pytest.mark.parametrize("case", URIS, ids=[case["uri"][:60] for case in URIS])
def test_a_uri_has_the_parts_that_every_client_finds(case):
    if "error" in case:
        with pytest.raises(strait.StraitError) as caught:
            strait.Uri.parse(case["uri"])
        assert caught.value.kind == case["error"]
        assert case.get("says", "") in str(caught.value)
        assert "password" not in str(caught.value).replace("user and password", "")
    else:
        uri = strait.Uri.parse(case["uri"])
        parts = {"host": uri.host, "port": uri.port, "store": uri.store, "path": uri.path}
        assert {"uri": case["uri"], **parts} == case


def test_the_gateway_of_a_uri_is_an_address_of_the_same_store():
    for text in ("strait://gw/@lab/a", "strait://[::1]:1/@@lab", "strait://gw:7/a"):
        uri = strait.Uri.parse(text)
        again = strait.Uri.parse(uri.gateway)
        assert (again.host, again.port, again.store) == (uri.host, uri.port, uri.store)


def test_the_address_of_a_client_has_no_path(fake):
    for address in (fake.address + "a", fake.address + "@lab/a", fake.address + "@@lab"):
        with pytest.raises(strait.InvalidArgument, match="no path"):
            strait.connect(address)


def test_two_different_stores_are_a_wrong_argument(fake):
    strait.connect(fake.address + "@lab", store="lab").close()
    with pytest.raises(strait.InvalidArgument, match=r"lab.*archive"):
        strait.connect(fake.address + "@lab", store="archive")


def test_a_uri_reaches_the_store_that_it_names(tmp_path):
    gateways.require_command()
    for name in ("main", "lab"):
        (tmp_path / name / "@lab").mkdir(parents=True)
        (tmp_path / name / "file").write_text(name)
    (tmp_path / "main" / "@lab" / "file").write_text("a directory named @lab")
    stores = [(tmp_path / "main").as_uri(), f"lab={(tmp_path / 'lab').as_uri()}"]
    expected = {"file": "main", "@lab/file": "lab", "@@lab/file": "a directory named @lab"}
    with gateways.started(*stores) as gateway:
        for path, content in expected.items():
            uri = strait.Uri.parse(f"strait://{gateway}/{path}")
            with strait.connect(uri.gateway) as client, client.open(uri.path) as file:
                assert file.read() == content
