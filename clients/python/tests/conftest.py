import pytest
from fake_gateway import FakeGateway
from test_conformance import summary

import strait


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
    for line in summary(reports):
        terminalreporter.write_line(line)
