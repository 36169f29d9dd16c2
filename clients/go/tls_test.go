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
