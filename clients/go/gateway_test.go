package strait

import (
	"context"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

const stopDeadline = 40 * time.Second

// lacks skips a test because the machine lacks something, and fails it under CI=true.
func lacks(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("CI skips no test, and this machine has %s", what)
	}
	t.Skipf("this machine has %s", what)
}

// command is the program strait: STRAIT_BIN, or the repository's.
func command(t testing.TB) string {
	t.Helper()
	if named := os.Getenv("STRAIT_BIN"); named != "" {
		return named
	}
	target := os.Getenv("CARGO_TARGET_DIR")
	if target == "" {
		target = "../../target"
	}
	for _, profile := range []string{"debug", "release"} {
		if built := filepath.Join(target, profile, "strait"); isFile(built) {
			return built
		}
	}
	lacks(t, "no gateway: build it (cargo build -p strait), or set STRAIT_BIN")
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// freePort is below Linux's range of ephemeral ports, which anybody's outgoing connection may get.
func freePort() int {
	for {
		port := 10_000 + rand.IntN(22_000)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = listener.Close()
			return port
		}
	}
}

// gateway is a process of our own.
type gateway struct {
	address string
	command []string
	process *exec.Cmd
	ended   chan struct{}
}

// startGateway starts `strait serve` over a store, and waits until it answers.
func startGateway(t testing.TB, store string, arguments ...string) *gateway {
	t.Helper()
	return startCommand(t, append([]string{"serve", "--store", store}, arguments...), nil)
}

// startCommand starts a command of strait that serves; `options` are for the client that waits.
func startCommand(t testing.TB, arguments []string, options *Options) *gateway {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", freePort())
	g := &gateway{
		address: address,
		command: append(append([]string{command(t)}, arguments...), "--listen", address),
	}
	g.start(t, options)
	t.Cleanup(func() { g.stop(t) })
	return g
}

func (g *gateway) start(t testing.TB, options *Options) {
	t.Helper()
	g.process = exec.Command(g.command[0], g.command[1:]...)
	g.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	g.ended = ended
	go func() {
		_ = g.process.Wait()
		close(ended)
	}()
	eventually(t, fmt.Sprintf("%v answers", g.command), func() bool {
		client, err := Dial(context.Background(), g.address, options)
		if err == nil {
			_ = client.Close()
			return true
		}
		select {
		case <-ended:
			t.Fatalf("%v ended at once", g.command)
		default:
		}
		return false
	})
}

// kill ends it as a crash does.
func (g *gateway) kill() {
	_ = g.process.Process.Kill()
	<-g.ended
}

func (g *gateway) stop(t testing.TB) {
	_ = g.process.Process.Signal(syscall.SIGTERM)
	_ = g.process.Process.Signal(syscall.SIGCONT)
	select {
	case <-g.ended:
	case <-time.After(stopDeadline):
		t.Error("the gateway doesn't end")
		g.kill()
	}
}

var shared struct {
	sync.Mutex
	gateway *gateway
	scratch string
}

// sharedGateway is one over a directory, for all tests.
func sharedGateway(t testing.TB) *gateway {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.gateway == nil {
		scratch, err := os.MkdirTemp("", "strait-go-")
		if err != nil {
			t.Fatal(err)
		}
		address := fmt.Sprintf("127.0.0.1:%d", freePort())
		g := &gateway{
			address: address,
			command: []string{command(t), "serve", "--store", "file://" + scratch, "--listen", address},
		}
		g.start(t, nil)
		shared.gateway, shared.scratch = g, scratch
	}
	return shared.gateway
}

// parallelTests is more than there are processors: most of them wait for a timeout.
const parallelTests = "16"

func TestMain(m *testing.M) {
	if os.Getenv(driverVariable) != "" {
		if err := drive(os.Stdin, os.Stdout); err != nil {
			panic(err)
		}
		return
	}
	_ = flag.Set("test.parallel", parallelTests)
	code := m.Run()
	if shared.gateway != nil {
		shared.gateway.kill()
		_ = os.RemoveAll(shared.scratch)
	}
	os.Exit(code)
}

// dialTest connects; the client ends with the test.
func dialTest(t testing.TB, address string, options *Options) *Client {
	t.Helper()
	client, err := Dial(context.Background(), address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func uniquePath() string { return "/go-" + hex.EncodeToString(newRequestID())[:12] }

// pattern as the cases define it.
func pattern(seed, offset, length int) []byte {
	data := make([]byte, length)
	for n := range data {
		i := offset + n
		data[n] = byte(seed + i + i/251)
	}
	return data
}

func must[T any](t testing.TB) func(value T, err error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t testing.TB, client *Client, path string, data []byte) {
	t.Helper()
	writer := must[*Writer](t)(client.Create(context.Background(), path, nil))
	must[int](t)(writer.Write(data))
	ok(t, writer.Close())
}
