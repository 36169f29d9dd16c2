import pytest
from fake_gateway import FakeGateway


@pytest.fixture
def fake():
    gateway = FakeGateway()
    yield gateway
    gateway.close()


@pytest.fixture
def client(fake):
    import strait

    with strait.connect(fake.address) as client:
        yield client
