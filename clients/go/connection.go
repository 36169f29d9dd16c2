package strait

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

const (
	// fresh is how long after a reply a request that changes nothing skips the check for the
	// connection's end. The check costs a system call, and a retry handles an end in between. (A
	// change would then count as repeated, and its outcome might be unknown.)
	fresh = 50 * time.Millisecond
	// slack is how much a connection's own limit may precede a request's deadline: setting it costs
	// as much as a small request's codec.
	slack = 20 * time.Millisecond
	// lastWords is how long a failed send waits for the TLS alert that explains it.
	lastWords = 500 * time.Millisecond
)

// longAgo as a deadline ends every wait on a connection.
var longAgo = time.Unix(1, 0)

// connection is one connection to a gateway. It is for one caller at a time; replies arrive in the
// order of requests. Its errors are *lostError, and *Error for silence and for the gateway's own.
type connection struct {
	conn      net.Conn
	encoder   *wire.Encoder
	decoder   *wire.Decoder
	gateway   string        // its address, for messages
	timeout   time.Duration // for messages
	silences  *atomic.Int32 // requests in a row, on all connections, without an answer in time
	login     int           // number of the session's login that it is attached by
	requests  int32
	replies   int32
	broken    bool
	lastReply time.Time
	deadline  time.Time // of the socket
	until     time.Time // of its holder, who may wait a little longer

	ctx  context.Context // of its present holder
	stop func() bool     // ends the watch on ctx; nil if there is none
}

// inFlight counts requests whose reply hasn't come yet.
func (c *connection) inFlight() int { return int(c.requests - c.replies) }

// take makes ctx and deadline those of all that follows, until release.
func (c *connection) take(ctx context.Context, deadline time.Time) {
	c.ctx = ctx
	if ctx.Done() != nil {
		c.stop = context.AfterFunc(ctx, func() { _ = c.conn.SetDeadline(longAgo) })
	}
	c.waitUntil(deadline)
}

// release ends the watch on the context; it says whether the connection can be used further.
func (c *connection) release() bool {
	if c.stop != nil && !c.stop() {
		c.broken = true // its deadline may be set in this moment
	}
	c.ctx, c.stop = nil, nil
	return !c.broken && c.inFlight() == 0
}

// waitUntil sets the deadline of all further sending and receiving.
func (c *connection) waitUntil(deadline time.Time) {
	c.until = deadline
	if early := deadline.Sub(c.deadline); early < 0 || early > min(slack, c.timeout/16) {
		c.deadline = deadline
		_ = c.conn.SetDeadline(deadline)
	}
	if c.ctx.Err() != nil {
		// It may have been done before the deadline was set.
		c.deadline = longAgo
		_ = c.conn.SetDeadline(longAgo)
	}
}

// send sends a request, a pointer to a message. Each needs its receive, in the same order.
func (c *connection) send(method string, request any) error {
	if c.broken {
		return &lostError{reason: "the connection broke before", sent: true}
	}
	c.requests++
	if err := c.encoder.Send(c.conn, method, c.requests, request); err != nil {
		return c.lose(method, c.lastWord(err))
	}
	return nil
}

// receive receives the next reply. `path` is for an error without one.
func (c *connection) receive(method, path string, reply any) error {
	return c.received(method, path, c.decoder.Receive(method, c.replies+1, reply))
}

// receiveRange receives the next reply, to a readRange of len(into) bytes at most.
func (c *connection) receiveRange(path string, into []byte) (int, error) {
	count, err := c.decoder.ReceiveInto(wire.ReadRange.Name, c.replies+1, into)
	return count, c.received(wire.ReadRange.Name, path, err)
}

func (c *connection) received(method, path string, err error) error {
	var told *wire.DfsError
	var refusal *wire.Refusal
	// Errors that the gateway reports arrive in whole, well-formed replies too.
	isTold, isRefusal := errors.As(err, &told), errors.As(err, &refusal)
	if err != nil && !isTold && !isRefusal {
		return c.lose(method, err)
	}
	c.replies++
	c.lastReply = time.Now()
	c.silences.Store(0)
	switch {
	case isTold:
		return reported(told, path)
	case isRefusal:
		return refused(refusal, method, path)
	}
	return nil
}

func (c *connection) call(method, path string, request, reply any) error {
	// Not those of a stream: the time of each begins with the reply before it.
	if timed, ok := request.(interface{ SetDeadline(time.Duration) }); ok {
		timed.SetDeadline(time.Until(c.until))
	}
	if err := c.send(method, request); err != nil {
		return err
	}
	return c.receive(method, path, reply)
}

// lose ends the connection after a failure in the middle of a message.
func (c *connection) lose(method string, err error) error {
	c.broken = true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if cause := contextError(c.ctx); cause != nil {
			return ended(cause, method, c.gateway, "")
		}
		c.silences.Add(1)
		return noAnswer(method, c.gateway, c.timeout)
	}
	if refusal := refusedCertificate(err); refusal != "" {
		return newError(Unauthenticated, "TLS with "+c.conn.RemoteAddr().String()+": "+refusal, "")
	}
	return &lostError{reason: reason(err), sent: true, tls: alertOf(err) != 0}
}

// contextError is the reason for which a context ended a wait; nil if something else did. A
// connection's deadline may pass a moment before that of the context from which it comes.
func contextError(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Add(slack).Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// lastWord receives the TLS alert that a gateway sent before it closed the connection, in place of
// the error of a send.
func (c *connection) lastWord(err error) error {
	if _, isTLS := c.conn.(*tls.Conn); !isTLS || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(lastWords))
	c.deadline = time.Time{}
	ignored := make([]byte, 1)
	if _, told := c.conn.Read(ignored); alertOf(told) != 0 {
		return told
	}
	return err
}

// isFresh says whether its last reply arrived a moment ago.
func (c *connection) isFresh() bool { return time.Since(c.lastReply) < fresh }

// endedWhileIdle says whether the gateway closed it since the last reply, as it does at a restart.
// If this is detected before a request is sent, the request can't have been executed.
func (c *connection) endedWhileIdle() bool {
	inner := c.conn
	if encrypted, ok := inner.(*tls.Conn); ok {
		inner = encrypted.NetConn()
	}
	return c.decoder.Unread() || isReadable(inner)
}

func (c *connection) leadsToThisMachine() bool {
	address, ok := c.conn.RemoteAddr().(*net.TCPAddr)
	return ok && address.IP.IsLoopback()
}

func (c *connection) close() { _ = c.conn.Close() }

// reason is an error's cause, without the addresses that package net puts before it.
func reason(err error) string {
	var inner *net.OpError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	var call *os.SyscallError
	if errors.As(err, &call) {
		err = call.Err
	}
	return err.Error()
}

// dial connects until the deadline; a silent address leaves time for the next.
func dial(ctx context.Context, endpoint *endpoint, connectBy time.Time) (net.Conn, error) {
	limited, cancel := context.WithDeadline(ctx, connectBy)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(limited, "tcp", endpoint.uri.hostPort())
	if err != nil {
		if ctx.Err() != nil {
			return nil, ended(ctx.Err(), "connect", endpoint.uri.hostPort(), "")
		}
		var unknown *net.DNSError
		if errors.As(err, &unknown) {
			return nil, &lostError{reason: fmt.Sprintf(
				"the name %s can't be resolved: %s; check its spelling, and DNS", endpoint.uri.Host, unknown.Err)}
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil, &lostError{reason: "connecting timed out"}
		}
		return nil, &lostError{reason: reason(err)}
	}
	if endpoint.TLS == nil {
		return conn, nil
	}
	encrypted, err := handshake(ctx, limited, conn, endpoint)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return encrypted, nil
}
