package strait

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"reflect"
)

// alert is one of RFC 8446, section 6, or 0.
type alert uint8

// alertOf returns the alert that the gateway sent. Package crypto/tls wraps it in a type of its own
// that it doesn't export.
func alertOf(err error) alert {
	var told *net.OpError
	if errors.As(err, &told) && told.Op == "remote error" {
		if number := reflect.ValueOf(told.Err); number.Kind() == reflect.Uint8 {
			return alert(number.Uint())
		}
	}
	return 0
}

// Alerts of RFC 8446, section 6, about the client's certificate, with their remedies.
var refusals = map[alert]string{
	42:  "it rejects the client's certificate; get one from the gateway's authority",
	43:  "it rejects the client's certificate; get one from the gateway's authority",
	44:  "it rejects the client's certificate: it was revoked; get a new one",
	45:  "it rejects the client's certificate: it has expired; renew it",
	46:  "it rejects the client's certificate; get one from the gateway's authority",
	48:  "it doesn't trust the client's certificate; get one from the gateway's authority",
	116: "it wants a certificate of the client: set Options.TLS.Certificates",
}

// handshakeFailure is also the answer of a gateway without TLS: it recognises a TLS client by its
// first bytes.
const handshakeFailure alert = 40

// refusedCertificate returns the remedy if the gateway said that our certificate is missing or bad.
func refusedCertificate(err error) string { return refusals[alertOf(err)] }

// handshake encrypts a connection, until `limited` is done; ctx is the caller's own.
func handshake(ctx, limited context.Context, plain net.Conn, endpoint *endpoint) (net.Conn, error) {
	where := "TLS with " + endpoint.uri.hostPort() + ": "
	config := endpoint.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName = endpoint.uri.Host
	}
	conn := tls.Client(plain, config)
	err := conn.HandshakeContext(limited)
	if err == nil {
		return conn, nil
	}
	// A retry would change nothing in these two.
	if verdict := (*tls.CertificateVerificationError)(nil); errors.As(err, &verdict) {
		return nil, newError(Unauthenticated, where+advice(verdict.Err)+" ("+verdict.Err.Error()+")", "")
	}
	if refusal := refusedCertificate(err); refusal != "" {
		return nil, newError(Unauthenticated, where+refusal, "")
	}
	if ctx.Err() != nil {
		return nil, ended(ctx.Err(), "connect", endpoint.uri.hostPort(), "")
	}
	if limited.Err() != nil {
		return nil, newError(TimedOut, where+"no answer; does it speak TLS on this port?", "")
	}
	why := reason(err)
	if told := alertOf(err); told == 0 || told == handshakeFailure {
		why += "; does it speak TLS on this port?"
	}
	return nil, &lostError{reason: why, tls: true}
}

// advice says what is wrong with the gateway's certificate, and the remedy.
func advice(verdict error) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case errors.As(verdict, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or isn't valid yet; renew it at the gateway, or check the clocks"
	case errors.As(verdict, &name):
		return "its certificate is for another name; connect by that name, or renew it with this one"
	default:
		return "its certificate isn't trusted; name its authority by Options.TLS.RootCAs"
	}
}
