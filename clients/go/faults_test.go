package strait

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	impatience = 500 * time.Millisecond
	// limit has the timeout, three seconds of tries, the cleanup after it, and time for a busy
	// machine. A stutter takes longer: a tenth of a second for each byte.
	limit = 10 * time.Second
)

// states in which a gateway fails. Each calls `strike`, and returns the error that follows.
var states = []struct {
	name string
	act  func(client *Client, directory string, strike func()) error
}{
	{"attach", func(client *Client, directory string, strike func()) error {
		reader, err := client.Open(context.Background(), directory+"/file")
		if err != nil {
			return err
		}
		defer reader.Close()
		// Reading ahead occupies the one connection, so the next request needs another.
		one := make([]byte, 1)
		_, _ = reader.Read(one)
		_, _ = reader.Read(one)
		strike()
		_, err = client.Stat(context.Background(), directory)
		return err
	}},
	{"look", func(client *Client, directory string, strike func()) error {
		strike()
		_, err := client.Stat(context.Background(), directory)
		return err
	}},
	{"open to read", func(client *Client, directory string, strike func()) error {
		strike()
		_, err := client.Open(context.Background(), directory+"/file")
		return err
	}},
	{"create", func(client *Client, directory string, strike func()) error {
		strike()
		_, err := client.Create(context.Background(), directory+"/new", nil)
		return err
	}},
	{"read", func(client *Client, directory string, strike func()) error {
		reader, err := client.Open(context.Background(), directory+"/file")
		if err != nil {
			return err
		}
		defer reader.Close()
		_, _ = reader.Read(make([]byte, 1))
		strike()
		_, err = io.Copy(io.Discard, reader)
		return err
	}},
	{"read somewhere", func(client *Client, directory string, strike func()) error {
		return readAfter(client, directory, strike, 100)
	}},
	{"read much somewhere", func(client *Client, directory string, strike func()) error {
		return readAfter(client, directory, strike, 3<<20)
	}},
	{"append", func(client *Client, directory string, strike func()) error {
		writer, err := client.Create(context.Background(), directory+"/new", nil)
		if err != nil {
			return err
		}
		defer writer.Abandon()
		strike()
		for range 20 { // more than may be in flight
			if _, err := writer.Write(make([]byte, 1<<20)); err != nil {
				return err
			}
		}
		return writer.Close()
	}},
	{"flush", func(client *Client, directory string, strike func()) error {
		writer, err := client.Create(context.Background(), directory+"/new", nil)
		if err != nil {
			return err
		}
		defer writer.Abandon()
		strike()
		return writer.Flush()
	}},
	{"close", func(client *Client, directory string, strike func()) error {
		writer, err := client.Create(context.Background(), directory+"/new", nil)
		if err != nil {
			return err
		}
		strike()
		return writer.Close()
	}},
	{"list", func(client *Client, directory string, strike func()) error {
		for _, err := range client.List(context.Background(), directory, 1) {
			if err != nil {
				return err
			}
			strike()
		}
		return nil
	}},
	{"change", func(client *Client, directory string, strike func()) error {
		strike()
		return client.Rename(context.Background(), directory+"/file", directory+"/renamed", false)
	}},
	{"get", func(client *Client, directory string, strike func()) error {
		strike()
		_, err := client.Get(context.Background(), directory+"/file", "/dev/null", false)
		return err
	}},
	{"put", func(client *Client, directory string, strike func()) error {
		local, err := os.CreateTemp("", "strait-go-")
		if err != nil {
			return err
		}
		defer os.Remove(local.Name())
		strike()
		_, err = client.Put(context.Background(), local.Name(), directory+"/new", false)
		return err
	}},
}

func readAfter(client *Client, directory string, strike func(), size int) error {
	reader, err := client.Open(context.Background(), directory+"/file")
	if err != nil {
		return err
	}
	defer reader.Close()
	strike()
	_, err = reader.ReadAt(make([]byte, size), 7)
	return err
}

// TestAFailingGatewayIsGivenUpInTime: in each state, the error has the right kind, and comes in
// time.
func TestAFailingGatewayIsGivenUpInTime(t *testing.T) {
	target := sharedGateway(t).address
	for _, state := range states {
		for name, fault := range map[string]fault{"silent": silent, "half": half, "stutter": stutter, "gone": gone} {
			t.Run(state.name+", "+name, func(t *testing.T) {
				t.Parallel()
				setup := dialTest(t, target, nil)
				var proxy *proxy
				var err error
				var struck time.Time
				// A busy machine may exceed the timeout before the fault.
				for tries := 0; struck.IsZero() && tries < 10; tries++ {
					directory := uniquePath()
					for _, name := range []string{"/file", "/other"} {
						writeFile(t, setup, directory+name, pattern(0, 0, 4<<20))
					}
					defer func() { _ = setup.RemoveAll(context.Background(), directory) }()
					proxy = newProxy(t, target)
					err, struck = strikeDuring(state.act, proxy, fault, directory)
				}
				if took := time.Since(struck); took > limit {
					t.Errorf("it took %v", took)
				}
				isGone := errors.Is(err, Unavailable) || errors.Is(err, OutcomeUnknown)
				if fault == gone && !isGone || fault != gone && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the error is %v", err)
				}
				if fault == gone {
					return
				}
				wanted := regexp.MustCompile(`^/\S+: \w+: no complete answer from ` + proxy.address + ` within 500 ms`)
				if !wanted.MatchString(err.Error()) {
					t.Errorf("the error is %v", err)
				}
			})
		}
	}
}

// strikeDuring returns the error of an operation, and when the fault first struck: never, if the
// error came before.
func strikeDuring(
	act func(*Client, string, func()) error, proxy *proxy, fault fault, directory string,
) (err error, struck time.Time) {
	options := &Options{Timeout: impatience}
	if fault == gone {
		// The client detects this itself, and mustn't mistake it for a silence.
		options.Timeout *= 6
	}
	client, err := Dial(context.Background(), proxy.address, options)
	if err != nil {
		return err, struck
	}
	defer client.Close()
	err = act(client, directory, func() {
		if struck.IsZero() {
			struck = time.Now()
		}
		proxy.strike(fault)
	})
	return err, struck
}

func TestOnlyAConnectionThatNeverAnsweredSuggestsTLS(t *testing.T) {
	ctx, directory := context.Background(), uniquePath()
	target := sharedGateway(t).address
	setup := dialTest(t, target, nil)
	writeFile(t, setup, directory+"/file", pattern(0, 0, 4<<20))
	defer func() { _ = setup.RemoveAll(ctx, directory) }()
	proxy := newProxy(t, target)
	client := must[*Client](t)(Dial(ctx, proxy.address, nil))
	defer client.Close()
	reader := must[*Reader](t)(client.Open(ctx, directory+"/file"))
	proxy.strike(gone)
	_, err := io.ReadAll(reader)
	if !errors.Is(err, Unavailable) || strings.Contains(err.Error(), "TLS") {
		t.Errorf("in the middle of a read: %v", err)
	}
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	_, err = Dial(ctx, listener.Addr().String(), nil)
	if err == nil || !strings.Contains(err.Error(), "does it serve TLS only?") {
		t.Errorf("before the first answer: %v", err)
	}
}

func TestRequestsSayHowLongTheClientWaits(t *testing.T) {
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	sent := make(chan []byte, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var length uint32
		_ = binary.Read(conn, binary.BigEndian, &length)
		login := make([]byte, length)
		_, _ = io.ReadFull(conn, login)
		sent <- login
	}()
	if _, err := Dial(context.Background(), listener.Addr().String(), &Options{Timeout: 50 * time.Second}); err == nil {
		t.Error("nobody answered")
	}
	// An i32 with the number 15.
	_, after, found := bytes.Cut(<-sent, []byte{8, 0, 15})
	if !found || len(after) < 4 {
		t.Fatal("the request has no deadline")
	}
	if ms := int32(binary.BigEndian.Uint32(after)); ms <= 40_000 || ms > 50_000 {
		t.Errorf("%d ms", ms)
	}
}

func TestAGatewayThatTakesNoConnectionIsGivenUpInTime(t *testing.T) {
	began := time.Now()
	_, err := Dial(context.Background(), fullBacklog(t), &Options{Timeout: impatience})
	if !errors.Is(err, Unavailable) || time.Since(began) > limit {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestAGatewayThatIsSilentInAHandshakeIsGivenUpInTime(t *testing.T) {
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	_, err := Dial(context.Background(), listener.Addr().String(),
		&Options{Timeout: impatience, TLS: &tls.Config{}})
	if !errors.Is(err, TimedOut) {
		t.Error(err)
	}
}

func TestAContextEndsACall(t *testing.T) {
	proxy := newProxy(t, sharedGateway(t).address)
	client := dialTest(t, proxy.address, nil)
	directory := uniquePath()
	writeFile(t, client, directory+"/file", pattern(0, 0, 3<<20))
	defer func() { proxy.strike(none); proxy.hangUp(); _ = client.RemoveAll(context.Background(), directory) }()
	ctx, cancel := context.WithCancel(context.Background())
	reader := must[*Reader](t)(client.Open(ctx, directory+"/file"))
	must[int](t)(reader.Read(make([]byte, 1)))
	proxy.strike(silent)

	brief, done := context.WithTimeout(context.Background(), impatience)
	defer done()
	began := time.Now()
	_, err := client.Stat(brief, directory)
	if !errors.Is(err, TimedOut) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("after its deadline: %v", err)
	}
	_, err = client.Stat(proxy.canceledByAReply(t), directory)
	if !errors.Is(err, Canceled) || !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	proxy.strike(none)
	must[*FileInfo](t)(client.Stat(context.Background(), directory)) // by a connection that stays
	proxy.strike(silent)
	err = client.Mkdirs(proxy.canceledByAReply(t), directory+"/a", nil)
	if !errors.Is(err, OutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled change: %v", err)
	}
	cancel()
	if _, err = reader.Read(make([]byte, 1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled reader: %v", err)
	}
	if took := time.Since(began); took > limit {
		t.Errorf("it took %v", took)
	}
}

func TestAnAppendWithoutAnAnswerIsNoneToRepeat(t *testing.T) {
	proxy := newProxy(t, sharedGateway(t).address)
	client := dialTest(t, proxy.address, &Options{Timeout: impatience})
	directory := uniquePath()
	defer func() { proxy.strike(none); proxy.hangUp(); _ = client.RemoveAll(context.Background(), directory) }()
	ctx, cancel := context.WithCancel(context.Background())
	late := must[*Writer](t)(client.Create(context.Background(), directory+"/late", nil))
	canceled := must[*Writer](t)(client.Create(ctx, directory+"/canceled", nil))
	proxy.strike(silent)
	var failure *Error
	must[int](t)(late.Write([]byte("x")))
	if err := late.Flush(); !errors.As(err, &failure) || failure.Kind != TimedOut || failure.RetrySafe {
		t.Errorf("after the time limit: %#v", err)
	}
	proxy.strike(none)
	must[*FileInfo](t)(client.Stat(context.Background(), directory)) // by a connection that stays
	proxy.strike(silent)
	must[int](t)(canceled.Write(make([]byte, chunkBytes))) // on its way
	cancel()
	if err := canceled.Flush(); !errors.Is(err, OutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("after a cancellation: %#v", err)
	}
}

func TestPausesDoubleAndHalfOfEachIsRandom(t *testing.T) {
	for attempt := 1; attempt < attempts; attempt++ {
		longest := 100 * time.Millisecond << (attempt - 1)
		least, most := longest, time.Duration(0)
		for range 1000 {
			pause := pauseAfter(attempt)
			least, most = min(least, pause), max(most, pause)
		}
		if least < longest/2 || most > longest || most-least < longest/4 {
			t.Errorf("after attempt %d: from %v to %v", attempt, least, most)
		}
	}
}

func TestSixteenRequestsOfAFileAreInFlight(t *testing.T) {
	proxy := newProxy(t, sharedGateway(t).address)
	client := dialTest(t, proxy.address, nil)
	ctx, directory, data := context.Background(), uniquePath(), pattern(2, 0, 60<<20)
	defer func() { proxy.strike(none); proxy.hangUp(); _ = client.RemoveAll(ctx, directory) }()
	await := func(work func() error) {
		t.Helper()
		done := make(chan error, 1)
		go func() { done <- work() }()
		eventually(t, "16 requests in flight", func() bool {
			count := proxy.inFlight.Load()
			if count > 16 {
				t.Fatalf("%d requests in flight", count)
			}
			return count == 16
		})
		// Replies were lost: only a new connection gets them.
		proxy.strike(none)
		proxy.inFlight.Store(0)
		proxy.hangUp()
		ok(t, <-done)
	}

	writer := must[*Writer](t)(client.Create(ctx, directory+"/file", nil))
	proxy.strike(silent)
	await(func() error {
		_, err := writer.Write(data)
		return errors.Join(err, writer.Close())
	})
	reader := must[*Reader](t)(client.Open(ctx, directory+"/file"))
	defer reader.Close()
	got := make([]byte, len(data))
	must[int](t)(io.ReadFull(reader, got[:20<<20])) // each reply lets another request ahead
	// Up to 16 MiB may be here already; as much again and more is left to ask for.
	proxy.strike(silent)
	await(func() error {
		_, err := io.ReadFull(reader, got[20<<20:])
		return err
	})
	if !bytes.Equal(got, data) {
		t.Error("other bytes")
	}
}

func TestAKilledGatewayIsReported(t *testing.T) {
	gateway := startGateway(t, "file://"+t.TempDir())
	client := dialTest(t, gateway.address, nil)
	gateway.kill()
	began := time.Now()
	_, err := client.Stat(context.Background(), "/")
	var failure *Error
	if !errors.As(err, &failure) || failure.Kind != Unavailable || failure.Path != "/" || !failure.RetrySafe {
		t.Errorf("%#v", err)
	}
	if took := time.Since(began); took > limit {
		t.Errorf("it took %v", took)
	}
	gateway.start(t, nil)
	must[*FileInfo](t)(client.Stat(context.Background(), "/"))
}

func TestManyGoroutinesShareAClient(t *testing.T) {
	proxy := newProxy(t, sharedGateway(t).address)
	client := dialTest(t, proxy.address, nil)
	ctx, directory, data := context.Background(), uniquePath(), pattern(5, 0, 2<<20)
	writeFile(t, client, directory+"/file", data)
	defer func() { _ = client.RemoveAll(ctx, directory) }()
	reader := must[*Reader](t)(client.Open(ctx, directory+"/file"))
	defer reader.Close()
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for round := range 20 {
				if n == 0 && round%5 == 4 {
					proxy.hangUp()
				}
				offset := (n*20 + round) * 1000
				got := make([]byte, 100_000)
				if _, err := reader.ReadAt(got, int64(offset)); err != nil || !bytes.Equal(got, data[offset:offset+len(got)]) {
					t.Errorf("at %d: %v", offset, err)
				}
				name := fmt.Sprintf("%s/%d-%d", directory, n, round)
				if err := client.Mkdirs(ctx, name, nil); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	all.Wait()
}

func TestAnAbandonedFileIsWritableAgainAtOnce(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	gateway := startCommand(t, []string{"up", "--data", data}, nil)
	client, other := dialTest(t, gateway.address, nil), dialTest(t, gateway.address, nil)
	ctx := context.Background()
	writer := must[*Writer](t)(client.Create(ctx, "/file", nil))
	must[int](t)(writer.Write([]byte("flushed")))
	ok(t, writer.Flush())
	if _, err := other.Append(ctx, "/file"); !errors.Is(err, Busy) {
		t.Fatalf("while it is open: %v", err)
	}
	writer.Abandon()
	if err := writer.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a second close: %v", err)
	}
	var again *Writer
	eventually(t, "another writer", func() bool {
		var err error
		again, err = other.Append(ctx, "/file")
		if err != nil && !errors.Is(err, Busy) {
			t.Fatal(err)
		}
		return err == nil
	})
	if again.Position() != int64(len("flushed")) {
		t.Errorf("it ends at %d", again.Position())
	}
	ok(t, again.Close())
}
