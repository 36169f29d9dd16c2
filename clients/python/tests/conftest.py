import fsspec
import gateways
import pytest
from fake_gateway import FakeGateway
from test_conformance import summary

import strait

# The tests run the tree, whose entry points nobody has registered; `test_package` has the wheel's.
fsspec.register_implementation("strait", "strait.fsspec.StraitFileSystem", clobber=True)


@pytest.fixture
def fake():
    gateway = FakeGateway()
    yield gateway
    gateway.close()


@pytest.fixture
def client(fake):
    with strait.connect(fake.address) as client:
        yield client


def pytest_terminal_summary(terminalreporter):
    reports = [
        report
        for outcome in ("passed", "failed", "skipped")
        for report in terminalreporter.stats.get(outcome, [])
        if getattr(report, "when", None) in ("call", "setup")
    ]
    faults = [
        value for report in reports for name, value in report.user_properties if name == "faults"
    ]
    for line in [*summary(reports), *faults]:
        terminalreporter.write_line(line)


@pytest.fixture
def real(tmp_path):
    """A client of a real gateway over `tmp_path / "store"`."""
    gateways.require_command()
    (tmp_path / "store").mkdir()
    with (
        gateways.started((tmp_path / "store").as_uri()) as address,
        strait.connect(address) as client,
    ):
        yield client
