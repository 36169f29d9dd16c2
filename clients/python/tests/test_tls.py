"""TLS, against certificates made for the occasion."""

import random
import shutil
import socket
import ssl
import subprocess
import threading

import pytest
from fake_gateway import FakeGateway

import strait

DATA = random.Random(6).randbytes(3_000_001)


@pytest.fixture
def certificate(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("no command openssl here to make a certificate with")
    made = tmp_path / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(made), "-out", str(tmp_path / "c")]
    subprocess.run(command, check=True, capture_output=True)
    made.write_text(made.read_text() + (tmp_path / "c").read_text())
    return made


@pytest.fixture
def gateway(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    gateway = FakeGateway(tls=context)
    yield gateway
    gateway.close()


def test_bytes_come_back_over_tls(gateway, certificate):
    trusting = ssl.create_default_context(cafile=str(certificate))
    address = f"localhost:{gateway.port}"
    with strait.connect(address, user="u", password="p", tls=trusting) as client:
        with client.open("/x", "wb") as file:
            file.write(DATA)
        gateway.break_connections()
        with client.open("/x", "rb") as file:
            assert file.read() == DATA


def test_a_certificate_that_nobody_vouches_for_is_refused(gateway):
    with pytest.raises(strait.Unauthenticated, match="certificate isn't trusted") as caught:
        strait.connect(f"localhost:{gateway.port}", tls=True)
    assert not caught.value.retry_safe and "is it running" not in str(caught.value)


def test_a_file_of_certificates_will_do_in_place_of_a_context(gateway, certificate, tmp_path):
    for named in (certificate, str(certificate)):
        strait.connect(f"localhost:{gateway.port}", tls=named).close()
    with pytest.raises(FileNotFoundError):
        strait.connect(f"localhost:{gateway.port}", tls="missing.pem")
    (tmp_path / "empty").write_text("no certificate")
    with pytest.raises(strait.InvalidArgument, match="no PEM certificate"):
        strait.connect(f"localhost:{gateway.port}", tls=tmp_path / "empty")
    with pytest.raises(TypeError, match="tls"):
        strait.connect(f"localhost:{gateway.port}", tls=1.5)


def test_a_certificate_of_another_name_is_told_so(gateway, certificate):
    with pytest.raises(strait.Unauthenticated, match="another name"):
        strait.connect(f"127.0.0.1:{gateway.port}", tls=certificate)


def test_a_port_without_tls_is_told_so(certificate):
    def answer(listener):
        sock, _ = listener.accept()
        with sock:
            sock.recv(1)  # it has seen enough

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer, args=(listener,))
        thread.start()
        with pytest.raises(strait.Unavailable, match=r"TLS with 127\.0\.0\.1") as caught:
            strait.connect(f"127.0.0.1:{listener.getsockname()[1]}", tls=certificate)
        thread.join()
    assert "does it speak TLS" in str(caught.value)


def test_a_password_leaves_the_machine_by_tls_only(gateway, certificate, fake, monkeypatch):
    monkeypatch.setattr("strait._wire.Connection.peer", lambda self: "192.0.2.1")
    with pytest.raises(strait.Unauthenticated, match="in the clear"):
        strait.connect(fake.address, user="u", password="p")
    assert not fake.calls["openSession"]
    trusting = ssl.create_default_context(cafile=str(certificate))
    strait.connect(f"localhost:{gateway.port}", user="u", password="p", tls=trusting).close()
