package strait

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// Defaults of Options.
const (
	// DefaultTimeout is longer than the minute or so after which a store drops a machine that has
	// gone away.
	DefaultTimeout = 120 * time.Second
	// DefaultConnectTimeout: a live gateway accepts a connection at once.
	DefaultConnectTimeout = 10 * time.Second
)

// maxTimeout is longer than any useful wait, and a sum with the time of day doesn't overflow.
const maxTimeout = 366 * 24 * time.Hour

// A Wire is Thrift's protocol and transport; a gateway accepts all of them on its one port.
type Wire int

const (
	FramedBinary Wire = iota
	Binary
	FramedCompact
	Compact
)

func (w Wire) protocol() wire.Protocol {
	return wire.Protocol{
		Compact: w == FramedCompact || w == Compact,
		Framed:  w == FramedBinary || w == FramedCompact,
	}
}

// Options say how to log in and to connect. The zero value is the gateway's default store, without
// a login.
type Options struct {
	// Store is the name or URI of one of the gateway's stores; empty: its default.
	Store string
	// User and Password, or the Token of an earlier session, or none where the gateway allows that.
	// Without TLS the client sends a password or token only to this machine.
	User, Password, Token string
	// TLS, if it isn't nil, encrypts. Its ServerName is the address's host if it names none, and
	// its RootCAs are this machine's if it has none.
	TLS *tls.Config
	// Wire is FramedBinary by default.
	Wire Wire
	// Timeout limits a request including connecting, a new login, retries, and the whole answer;
	// 0: DefaultTimeout. A context with an earlier deadline goes first.
	Timeout time.Duration
	// ConnectTimeout limits connecting and the TLS handshake; 0: DefaultConnectTimeout.
	ConnectTimeout time.Duration
}

// endpoint is a gateway, and how to log in there.
type endpoint struct {
	uri URI
	Options
}

func newEndpoint(address string, options *Options) (endpoint, error) {
	var e endpoint
	if options != nil {
		e.Options = *options
	}
	if !strings.Contains(address, "://") {
		address = scheme + address
	}
	var err error
	if e.uri, err = ParseURI(address); err != nil {
		return e, err
	}
	if e.uri.Path != "/" {
		return e, newError(InvalidArgument,
			"an address ends with the gateway or its store, and has no path: "+address, "")
	}
	if e.uri.Store != "" && e.Store != "" && e.uri.Store != e.Store {
		return e, newError(InvalidArgument, "the address names the store "+e.uri.Store+
			", and the option names "+e.Store+"; give one", "")
	}
	if e.uri.Store != "" {
		e.Store = e.uri.Store
	}
	if e.Timeout == 0 {
		e.Timeout = DefaultTimeout
	}
	if e.ConnectTimeout == 0 {
		e.ConnectTimeout = DefaultConnectTimeout
	}
	for _, timeout := range []time.Duration{e.Timeout, e.ConnectTimeout} {
		if timeout <= 0 || timeout > maxTimeout {
			return e, newError(InvalidArgument,
				fmt.Sprintf("the timeout of %v isn't above 0 and a year at most", timeout), "")
		}
	}
	return e, nil
}
