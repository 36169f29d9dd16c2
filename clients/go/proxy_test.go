package strait

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// A fault is what a proxy does to a gateway's replies.
type fault int

const (
	none    fault = iota
	silent        // holds them back
	half          // sends the first bytes of each, and no more
	stutter       // sends them byte by byte
	gone          // resets all connections, and accepts no others
)

const (
	// stutterPause is short enough to renew any limit of a single wait.
	stutterPause = 100 * time.Millisecond
	// halfBytes end within a frame's header, or after it.
	halfBytes = 7
)

// proxy forwards to a gateway; the gateway's answers suffer from its fault.
type proxy struct {
	address  string
	target   string
	listener net.Listener
	inFlight atomic.Int64 // requests whose replies it hasn't passed on

	mu          sync.Mutex
	fault       fault
	onHeld      func() // called once a reply is held back
	closed      bool
	connections []*net.TCPConn
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	p := &proxy{address: listener.Addr().String(), target: target, listener: listener}
	go p.accept()
	t.Cleanup(p.close)
	return p
}

// strike applies a fault from now on.
func (p *proxy) strike(fault fault) {
	p.mu.Lock()
	p.fault = fault
	p.mu.Unlock()
	if fault == gone {
		p.close()
	}
}

// struck is the fault for a reply that has come now.
func (p *proxy) struck() fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	fault := p.fault
	if fault == silent && p.onHeld != nil {
		p.onHeld()
		p.onHeld = nil
	}
	return fault
}

// canceledByAReply is canceled once a reply is held back: while a call waits for it.
func (p *proxy) canceledByAReply(t testing.TB) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onHeld = cancel
	return ctx
}

// hangUp resets all connections; new ones are welcome.
func (p *proxy) hangUp() {
	p.mu.Lock()
	connections := p.connections
	p.connections = nil
	p.mu.Unlock()
	for _, connection := range connections {
		reset(connection)
	}
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.hangUp()
}

func (p *proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

func reset(connection *net.TCPConn) {
	_ = connection.SetLinger(0)
	_ = connection.Close()
}

func (p *proxy) accept() {
	for {
		accepted, err := p.listener.Accept()
		if err != nil {
			return
		}
		client := accepted.(*net.TCPConn)
		dialed, err := net.Dial("tcp", p.target)
		if err != nil {
			reset(client)
			continue
		}
		gateway := dialed.(*net.TCPConn)
		p.mu.Lock()
		closed := p.closed
		p.connections = append(p.connections, client, gateway)
		p.mu.Unlock()
		if closed {
			p.close()
			return
		}
		go p.forward(client, gateway, false)
		go p.forward(gateway, client, true)
	}
}

func (p *proxy) forward(from, to *net.TCPConn, isReply bool) {
	defer reset(from)
	defer reset(to)
	buffer := make([]byte, 64<<10)
	var passed frames
	for {
		count, err := from.Read(buffer)
		if err != nil {
			return
		}
		fault := none
		if isReply {
			fault = p.struck()
		}
		switch fault {
		case none:
			ended := passed.endsIn(buffer[:count])
			if isReply {
				ended = -ended
			}
			p.inFlight.Add(ended)
			_, err = to.Write(buffer[:count])
		case silent:
			p.hold(from)
			return
		case half:
			_, _ = to.Write(buffer[:min(count, halfBytes)])
			p.hold(from)
			return
		case stutter:
			err = p.stutter(buffer[:count], to)
		case gone:
			return
		}
		if err != nil {
			return
		}
	}
}

// frames finds the ends of frames in a stream of bytes.
type frames struct {
	header []byte
	left   int
}

func (f *frames) endsIn(data []byte) (ended int64) {
	for len(data) > 0 {
		if f.left == 0 {
			f.header = append(f.header, data[0])
			data = data[1:]
			if len(f.header) == 4 {
				f.left = int(binary.BigEndian.Uint32(f.header))
				f.header = nil
			}
			continue
		}
		count := min(f.left, len(data))
		f.left -= count
		data = data[count:]
		if f.left == 0 {
			ended++
		}
	}
	return ended
}

// hold drops all that comes, until the end.
func (p *proxy) hold(from *net.TCPConn) {
	buffer := make([]byte, 64<<10)
	for {
		if _, err := from.Read(buffer); err != nil {
			return
		}
	}
}

func (p *proxy) stutter(data []byte, to *net.TCPConn) error {
	for n := range data {
		if p.isClosed() {
			return net.ErrClosed
		}
		if _, err := to.Write(data[n : n+1]); err != nil {
			return err
		}
		pause("the pace of a stutter", stutterPause)
	}
	return nil
}

// fullBacklog is the address of a listener on which the system takes no further connection.
func fullBacklog(t testing.TB) string {
	t.Helper()
	descriptor := must[int](t)(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0))
	t.Cleanup(func() { _ = syscall.Close(descriptor) })
	ok(t, syscall.Bind(descriptor, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	ok(t, syscall.Listen(descriptor, 0))
	name := must[syscall.Sockaddr](t)(syscall.Getsockname(descriptor)).(*syscall.SockaddrInet4)
	address := (&net.TCPAddr{IP: name.Addr[:], Port: name.Port}).String()
	for {
		connection, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
}
