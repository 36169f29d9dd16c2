"""Reaching a gateway: its name, a TCP connection, and TLS."""

import socket
import ssl
import time

from strait import errors

# A live gateway accepts a connection at once; only its answers may take long.
CONNECT_TIMEOUT_S = 10.0

# OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID, _CERT_HAS_EXPIRED, and _HOSTNAME_MISMATCH with
# _IP_ADDRESS_MISMATCH: problems of the gateway's certificate, with their remedies.
_VERDICTS = {
    9: "its certificate isn't valid yet; check the clocks of both machines",
    10: "its certificate has expired; renew it at the gateway",
    62: "its certificate is for another name; connect by that name, or renew it with this one",
    64: "its certificate is for another name; connect by that name, or renew it with this one",
}
_UNTRUSTED = "its certificate isn't trusted; name the file of its authority by tls=PATH"
_REJECTED = "it rejects the client's certificate; get one from the gateway's authority"
# Alerts of RFC 8446, section 6.2, as OpenSSL names them, about our certificate.
_REFUSALS = {
    "CERTIFICATE_REQUIRED": "it wants a certificate of the client: pass as tls an ssl.SSLContext "
    "after load_cert_chain",
    "CERTIFICATE_EXPIRED": "it rejects the client's certificate: it has expired; renew it",
    "CERTIFICATE_REVOKED": "it rejects the client's certificate: it was revoked; get a new one",
    "UNKNOWN_CA": "it doesn't trust the client's certificate; get one from the gateway's authority",
    "CERTIFICATE_UNKNOWN": _REJECTED,
    "BAD_CERTIFICATE": _REJECTED,
    "UNSUPPORTED_CERTIFICATE": "it takes no client certificate of this kind; get another",
}


class ConnectionLostError(Exception):
    """The connection broke.

    `sent` says whether a request may have arrived, `tls` whether TLS is at fault, and `unanswered`
    whether the connection had never brought an answer.
    """

    def __init__(
        self, reason: object, *, sent: bool, tls: bool = False, unanswered: bool = False
    ) -> None:
        super().__init__(str(reason))
        self.sent = sent
        self.tls = tls
        self.unanswered = unanswered


def refused_certificate(reason: object) -> errors.Unauthenticated | None:
    """The error where the gateway refused our certificate, or that we gave none."""
    if not isinstance(reason, ssl.SSLError):
        return None
    for alert, why in _REFUSALS.items():
        if (reason.reason or "").endswith(f"ALERT_{alert}"):
            # A retry would change nothing.
            return errors.Unauthenticated(f"TLS with the gateway: {why}")
    return None


def connect(host: str, port: int, tls: ssl.SSLContext | None, deadline: float) -> socket.socket:
    """A socket, encrypted where `tls` is given, by `deadline` and in ten seconds at most."""
    deadline = min(deadline, time.monotonic() + CONNECT_TIMEOUT_S)
    plain = _connect_to_any(host, port, deadline)
    return plain if tls is None else _encrypted(plain, tls, host, port, deadline)


def _connect_to_any(host: str, port: int, deadline: float) -> socket.socket:
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no name of a host"
        reason = f"the name {host} can't be resolved: {why}; check its spelling, and DNS"
        raise ConnectionLostError(reason, sent=False) from error
    failure: OSError = OSError(
        f"the host name {host} has no address; check the name, or the resolver"
    )
    for left, (family, kind, protocol, _, address) in zip(
        range(len(addresses), 0, -1), addresses, strict=True
    ):
        # Each address gets its share of the time, so that a silent one leaves some for the next.
        share = (deadline - time.monotonic()) / left
        if share <= 0:
            failure = TimeoutError("timed out")
            break
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(share)
            sock.connect(address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise ConnectionLostError(failure.strerror or failure, sent=False) from failure


def _encrypted(
    plain: socket.socket, tls: ssl.SSLContext, host: str, port: int, deadline: float
) -> ssl.SSLSocket:
    where = f"TLS with {host}:{port}"
    plain.settimeout(max(deadline - time.monotonic(), 0.001))
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        why = _VERDICTS.get(error.verify_code, _UNTRUSTED)
        # A retry would change nothing.
        raise errors.Unauthenticated(f"{where}: {why} ({error.verify_message})") from error
    except TimeoutError:
        plain.close()
        raise errors.TimedOut(f"{where}: no answer; does it speak TLS on this port?") from None
    except OSError as error:
        plain.close()
        refusal = refused_certificate(error)
        if refusal is not None:
            raise refusal from error
        why = f"{error.strerror or error}; does it speak TLS on this port?"
        raise ConnectionLostError(why, sent=False, tls=True) from error
