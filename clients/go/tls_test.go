package strait

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate makes one for localhost that vouches for itself, and returns its files.
func certificate(t *testing.T, until time.Time) (certificateFile, keyFile string, trusted *x509.CertPool) {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "localhost"},
		DNSNames:              []string{"localhost"},
		NotBefore:             until.Add(-48 * time.Hour),
		NotAfter:              until,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	made := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	secret := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(key))
	directory := t.TempDir()
	certificateFile, keyFile = filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made})
	ok(t, os.WriteFile(certificateFile, text, 0o600))
	ok(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	trusted = x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	return certificateFile, keyFile, trusted
}

// guardedGateway is one with TLS and the user ada, whose password is secret.
func guardedGateway(t *testing.T) (address string, options Options) {
	t.Helper()
	certificateFile, keyFile, trusted := certificate(t, time.Now().Add(24*time.Hour))
	passwords := filepath.Join(t.TempDir(), "passwords")
	setting := exec.Command(command(t), "passwd", "ada", "--file", passwords)
	setting.Stdin = strings.NewReader("secret\n")
	if said, err := setting.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", said, err)
	}
	options = Options{User: "ada", Password: "secret", TLS: &tls.Config{RootCAs: trusted}}
	waiting := options
	waiting.TLS = &tls.Config{RootCAs: trusted, ServerName: "localhost"}
	gateway := startCommand(t, []string{
		"serve", "--store", "file://" + t.TempDir(), "--passwords", passwords,
		"--tls-cert", certificateFile, "--tls-key", keyFile,
	}, &waiting)
	_, port, err := net.SplitHostPort(gateway.address)
	ok(t, err)
	return net.JoinHostPort("localhost", port), options
}

func TestLoginsAndTokensOverTLS(t *testing.T) {
	address, options := guardedGateway(t)
	ctx := context.Background()
	client := dialTest(t, address, &options)
	data := pattern(9, 0, 5<<20+3)
	writeFile(t, client, "/file", data)
	if got := must[[]byte](t)(client.ReadFile(ctx, "/file")); !bytes.Equal(got, data) {
		t.Error("other bytes")
	}
	if client.User() != "ada" {
		t.Errorf("the user is %q", client.User())
	}
	byToken := must[*Client](t)(Dial(ctx, address, &Options{Token: client.Token(), TLS: options.TLS}))
	must[*FileInfo](t)(byToken.Stat(ctx, "/file"))
	ok(t, byToken.Close())
	must[*FileInfo](t)(client.Stat(ctx, "/file")) // the session goes on

	refuses := func(what string, wrong Options, address string) {
		t.Helper()
		if _, err := Dial(ctx, address, &wrong); !errors.Is(err, Unauthenticated) ||
			!errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	mistyped := options
	mistyped.Password = "Secret"
	refuses("", mistyped, address)
	distrusting := options
	distrusting.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	refuses("isn't trusted", distrusting, address)
	refuses("for another name", options, strings.Replace(address, "localhost", "127.0.0.1", 1))
	refuses("", Options{Token: "none of ours", TLS: options.TLS}, address)

	plain := sharedGateway(t).address
	if _, err := Dial(ctx, plain, &Options{TLS: &tls.Config{InsecureSkipVerify: true}}); !errors.Is(err, Unavailable) ||
		!strings.Contains(err.Error(), "does it speak TLS on this port?") {
		t.Errorf("a gateway without TLS: %v", err)
	}
}

// clientCertificate makes an authority, and a certificate of it.
func clientCertificate(t *testing.T) (authorityFile string, own tls.Certificate) {
	t.Helper()
	authorityKey := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: uniquePath()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	made := must[[]byte](t)(x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey))
	authorityFile = filepath.Join(t.TempDir(), "authority.pem")
	ok(t, os.WriteFile(authorityFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o600))
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "client"}, DNSNames: []string{"client"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	signed := must[[]byte](t)(x509.CreateCertificate(rand.Reader, template, authority, &key.PublicKey, authorityKey))
	return authorityFile, tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: key}
}

func TestAGatewayMayWantAClientsCertificate(t *testing.T) {
	certificateFile, keyFile, trusted := certificate(t, time.Now().Add(24*time.Hour))
	authorityFile, own := clientCertificate(t)
	trusting := &tls.Config{RootCAs: trusted, ServerName: "localhost"}
	known := trusting.Clone()
	known.Certificates = []tls.Certificate{own}
	gateway := startCommand(t, []string{
		"serve", "--store", "file://" + t.TempDir(), "--tls-cert", certificateFile, "--tls-key", keyFile,
		"--tls-client-ca", authorityFile,
	}, &Options{TLS: known})
	must[*FileInfo](t)(dialTest(t, gateway.address, &Options{TLS: known}).Stat(context.Background(), "/"))
	_, err := Dial(context.Background(), gateway.address, &Options{TLS: trusting})
	if !errors.Is(err, Unauthenticated) || !strings.Contains(err.Error(), "it wants a certificate of the client") {
		t.Errorf("without one: %v", err)
	}
	_, stranger := clientCertificate(t)
	unknown := trusting.Clone()
	unknown.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }
	if _, err = Dial(context.Background(), gateway.address, &Options{TLS: unknown}); !errors.Is(err, Unauthenticated) {
		t.Errorf("with another authority's: %v", err)
	}
}

func TestAnExpiredCertificateIsExplained(t *testing.T) {
	certificateFile, keyFile, trusted := certificate(t, time.Now().Add(-time.Hour))
	own := must[tls.Certificate](t)(tls.LoadX509KeyPair(certificateFile, keyFile))
	listener := must[net.Listener](t)(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}}))
	defer listener.Close()
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_ = connection.(*tls.Conn).Handshake()
			_ = connection.Close()
		}
	}()
	_, err := Dial(context.Background(), listener.Addr().String(),
		&Options{TLS: &tls.Config{RootCAs: trusted, ServerName: "localhost"}})
	if !errors.Is(err, Unauthenticated) || !strings.Contains(err.Error(), "expired") {
		t.Error(err)
	}
}

func TestSecretsStayOnThisMachineWithoutTLS(t *testing.T) {
	probe, err := net.Dial("udp", "192.0.2.1:9") // sends nothing
	if err != nil {
		lacks(t, "no address but loopback's")
	}
	defer probe.Close()
	listener := must[net.Listener](t)(net.Listen("tcp", net.JoinHostPort(probe.LocalAddr().(*net.UDPAddr).IP.String(), "0")))
	defer listener.Close()
	received := make(chan int, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		count, _ := connection.Read(make([]byte, 100))
		received <- count
	}()
	_, err = Dial(context.Background(), listener.Addr().String(), &Options{User: "ada", Password: "secret"})
	if !errors.Is(err, Unauthenticated) {
		t.Error(err)
	}
	if count := <-received; count != 0 {
		t.Errorf("%d bytes were sent", count)
	}
}
