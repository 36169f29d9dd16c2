package strait

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
)

// refusingProxy forwards requests to a gateway, in framed binary, and refuses appends as a full
// store does.
type refusingProxy struct {
	address string

	mu      sync.Mutex
	full    bool // refuses appends
	takes   bool // refuses one append that the gateway has taken all the same
	appends int  // refused
}

func newRefusingProxy(t *testing.T, target string) *refusingProxy {
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	p := &refusingProxy{address: listener.Addr().String()}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			gateway, err := net.Dial("tcp", target)
			if err != nil {
				_ = client.Close()
				return
			}
			go p.serve(client, gateway)
		}
	}()
	return p
}

func (p *refusingProxy) set(full, takes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full, p.takes = full, takes
}

func (p *refusingProxy) refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.appends
}

func (p *refusingProxy) serve(client, gateway net.Conn) {
	defer client.Close()
	defer gateway.Close()
	for {
		request, err := frame(client)
		if err != nil {
			return
		}
		length := binary.BigEndian.Uint32(request[8:])
		head := request[4 : 12+length+4] // of the message: version, name, number
		isAppend := string(head[8:8+length]) == "appendData"
		p.mu.Lock()
		refuses, takes := isAppend && (p.full || p.takes), isAppend && p.takes
		if refuses {
			p.appends++
			p.takes = false
		}
		p.mu.Unlock()
		reply := refusal(head, takes)
		if !refuses || takes {
			if _, err = gateway.Write(request); err != nil {
				return
			}
			taken, err := frame(gateway)
			if err != nil {
				return
			}
			if !refuses {
				reply = taken
			}
		}
		if _, err = client.Write(reply); err != nil {
			return
		}
	}
}

// frame reads one with its length before it.
func frame(from io.Reader) ([]byte, error) {
	length := make([]byte, 4)
	if _, err := io.ReadFull(from, length); err != nil {
		return nil, err
	}
	whole := append(length, make([]byte, binary.BigEndian.Uint32(length))...)
	_, err := io.ReadFull(from, whole[4:])
	return whole, err
}

// refusal is the reply NoSpace, or Unavailable, to a request that begins so.
func refusal(head []byte, unavailable bool) []byte {
	code, kind := byte(NoSpace), NoSpace.String()
	if unavailable {
		code, kind = byte(Unavailable), Unavailable.String()
	}
	message := bytes.Clone(head)
	message[3] = 2                                    // a reply
	message = append(message, 12, 0, 1)               // its field 1, the error
	message = append(message, 8, 0, 1, 0, 0, 0, code) // field 1, the code
	message = append(message, 11, 0, 2, 0, 0, 0, byte(len(kind)))
	message = append(message, kind...)
	message = append(message, 11, 0, 3, 0, 0, 0, 4, 'f', 'u', 'l', 'l', 0, 0)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
}

// fullStore is a client whose appends a proxy can refuse, and a new path.
func fullStore(t *testing.T) (*refusingProxy, *Client, string) {
	proxy := newRefusingProxy(t, sharedGateway(t).address)
	client := dialTest(t, proxy.address, nil)
	path := uniquePath()
	t.Cleanup(func() { _ = dialTest(t, sharedGateway(t).address, nil).Remove(context.Background(), path) })
	return proxy, client, path
}

func TestEachStepOfAFullStoreMayBeRepeated(t *testing.T) {
	ctx, data := context.Background(), pattern(1, 0, 3<<20+77)
	for name, step := range map[string]func(*Writer) error{
		"flush": (*Writer).Flush, "sync": (*Writer).Sync, "close": (*Writer).Close,
	} {
		proxy, client, path := fullStore(t)
		writer := must[*Writer](t)(client.Create(ctx, path, nil))
		must[int](t)(writer.Write([]byte("before")))
		ok(t, writer.Sync())
		proxy.set(true, false)
		// The store refuses the first append, and with it the others.
		must[int](t)(writer.Write(data))
		for range 2 {
			var failure *Error
			if err := step(writer); !errors.As(err, &failure) || failure.Kind != NoSpace || failure.Path != path {
				t.Errorf("%s: %v", name, err)
			}
		}
		proxy.set(false, false)
		ok(t, step(writer))
		if name != "close" {
			ok(t, writer.Close())
		}
		if got := must[[]byte](t)(client.ReadFile(ctx, path)); !bytes.Equal(got, append([]byte("before"), data...)) {
			t.Errorf("%s: %d other bytes", name, len(got))
		}
	}
}

func TestARefusedWriteTellsHowMuchItTook(t *testing.T) {
	proxy, client, path := fullStore(t)
	ctx, data := context.Background(), pattern(2, 0, 20<<20+5)
	writer := must[*Writer](t)(client.Create(ctx, path, nil))
	proxy.set(true, false)
	taken, refusals := 0, 0
	for taken < len(data) {
		piece := data[taken:min(taken+300_000, len(data))]
		count, err := writer.Write(piece)
		taken += count
		if writer.Position() != int64(taken) {
			t.Fatalf("%d were taken, and the position is %d", taken, writer.Position())
		}
		if err != nil {
			if !errors.Is(err, NoSpace) || count != 0 {
				t.Fatalf("%d bytes were taken: %v", count, err)
			}
			refusals++
			proxy.set(refusals < 4, false)
		}
	}
	ok(t, writer.Close())
	if refusals != 4 {
		t.Errorf("%d refusals", refusals)
	}
	if got := must[[]byte](t)(client.ReadFile(ctx, path)); !bytes.Equal(got, data) {
		t.Errorf("%d other bytes", len(got))
	}
}

func TestAnAppendThatWasTakenThoughItWasRefusedIsntDoubled(t *testing.T) {
	ctx := context.Background()
	for _, size := range []int{1 << 20, 3 << 20} {
		proxy, client, path := fullStore(t)
		data := pattern(3, 0, size)
		writer := must[*Writer](t)(client.Create(ctx, path, nil))
		proxy.set(false, true)
		must[int](t)(writer.Write(data))
		if err := writer.Flush(); !errors.Is(err, Unavailable) {
			t.Errorf("it isn't refused: %v", err)
		}
		ok(t, writer.Close())
		if got := must[[]byte](t)(client.ReadFile(ctx, path)); !bytes.Equal(got, data) {
			t.Errorf("%d other bytes", len(got))
		}
	}
}

func TestAFileIsAbandonedAfterARefusalWithoutAnotherTry(t *testing.T) {
	proxy, client, path := fullStore(t)
	ctx := context.Background()
	writer := must[*Writer](t)(client.Create(ctx, path, nil))
	proxy.set(true, false)
	must[int](t)(writer.Write([]byte("x")))
	if err := writer.Close(); !errors.Is(err, NoSpace) {
		t.Error(err)
	}
	refused := proxy.refused()
	writer.Abandon()
	if again := proxy.refused(); again != refused {
		t.Errorf("%d more appends", again-refused)
	}
	// The gateway has closed it: another writer gets it.
	other := must[*Writer](t)(client.Append(ctx, path))
	ok(t, other.Close())
}
