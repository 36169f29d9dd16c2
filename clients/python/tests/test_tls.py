"""TLS, against certificates made for the occasion."""

import contextlib
import random
import select
import shutil
import socket
import ssl
import subprocess
import threading

import gateways
import pytest
from fake_gateway import FakeGateway

import strait
from strait._wire import Connection

DATA = random.Random(6).randbytes(3_000_001)


@pytest.fixture
def certificate(tmp_path):
    if shutil.which("openssl") is None:
        gateways.lacks("no command openssl to make a certificate with")
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


@pytest.fixture
def abroad():
    """A gateway in the clear that isn't on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            gateways.lacks("no address but loopback's")
        gateway = FakeGateway(host=probe.getsockname()[0])
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
    with pytest.raises(strait.Unauthenticated, match="certificate isn't trusted; name") as caught:
        strait.connect(f"localhost:{gateway.port}", tls=True)
    assert not caught.value.retry_safe and "is it running" not in str(caught.value)


def test_a_file_of_certificates_will_do_in_place_of_a_context(gateway, certificate, tmp_path):
    for named in (certificate, str(certificate)):
        strait.connect(f"localhost:{gateway.port}", tls=named).close()
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: 'missing\.pem'"):
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


@pytest.mark.parametrize("login", [{"user": "u", "password": "p"}, {"token": "token-1"}])
def test_a_login_leaves_the_machine_by_tls_only(abroad, gateway, certificate, login):
    with pytest.raises(strait.Unauthenticated, match=r"in the clear; use TLS") as caught:
        strait.connect(abroad.address, **login)
    assert not caught.value.retry_safe
    assert not abroad.calls["openSession"]
    strait.connect(f"localhost:{gateway.port}", tls=certificate, **login).close()


def test_a_session_without_a_login_needs_no_tls_abroad(abroad):
    abroad.files["/x"] = bytearray(b"abc")
    with strait.connect(abroad.address, user="u") as client:
        abroad.break_connections()  # it resumes by a token that wasn't secret
        assert client.stat("/x").length == 3


@pytest.fixture
def asking(certificate):
    """A gateway that wants a certificate of its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.load_verify_locations(certificate)
    context.verify_mode = ssl.CERT_REQUIRED
    gateway = FakeGateway(tls=context)
    yield gateway
    gateway.close()


@pytest.mark.parametrize("late", [False, True])
def test_what_a_gateway_objects_to_in_our_certificate_is_told(
    asking, certificate, monkeypatch, late
):
    send = Connection.send

    def send_late(self, method, request):
        assert asking.refused.wait(10)
        asking.break_connections()
        # By now the gateway's kernel resets the connection on further bytes.
        with contextlib.suppress(OSError):
            self._socket.send(b"x")
        assert select.select([self._socket], [], [], 10)[0]
        send(self, method, request)

    if late:
        monkeypatch.setattr(Connection, "send", send_late)
    with pytest.raises(strait.Unauthenticated, match=r"wants a certificate .* load_cert_chain"):
        strait.connect(f"localhost:{asking.port}", tls=certificate)


def test_an_expired_certificate_of_the_gateway_is_told_so(certificate, tmp_path):
    expired = tmp_path / "expired.pem"
    command = ["openssl", "x509", "-in", str(certificate), "-signkey", str(certificate)]
    subprocess.run([*command, "-days", "-1", "-out", str(expired)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(expired, certificate)
    gateway = FakeGateway(tls=context)
    try:
        with pytest.raises(strait.Unauthenticated, match="has expired; renew it") as caught:
            strait.connect(f"localhost:{gateway.port}", tls=expired)
    finally:
        gateway.close()
    assert not caught.value.retry_safe
