package strait

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// The states and times below are those of docs/client-protocol.md.
const (
	// attempts of one request before a broken connection becomes the caller's error. With the
	// pauses they span 1.6 to 3.1 s: a gateway's restart.
	attempts   = 6
	firstPause = 100 * time.Millisecond
	// partingPatience limits a request that only cleans up (an open handle, the session, a
	// temporary file) once the gateway has left a request unanswered. After a second one there is
	// no time.
	partingPatience = 2 * time.Second
	// maxIdleConnections are kept: few callers are concurrent, and each connection costs the
	// gateway one.
	maxIdleConnections = 8
	// defaultChunkBytes is used if the gateway doesn't report its limit.
	defaultChunkBytes = 4 << 20
	// requestIDBytes are random, so that no two clients share one.
	requestIDBytes = 16
)

// session is a login at a gateway, a pool of connections, and the one place that retries. Any
// number of goroutines use it; each has a connection to itself while it needs one.
type session struct {
	endpoint endpoint
	turn     loginInTurn
	silences atomic.Int32

	mu            sync.Mutex // of all below
	idle          []*connection
	login         int // counts logins: connections of an older one aren't pooled
	closed        bool
	incarnation   int64
	token, user   string
	store         StoreInfo
	maxChunkBytes int
}

// operation is what a request does, for its errors and its retries.
type operation struct {
	method, path string
	isMutation   bool
}

// newSession logs in at once and without retries: a user who mistypes an address needs to know now.
func newSession(ctx context.Context, endpoint endpoint) (*session, error) {
	s := &session{endpoint: endpoint, token: endpoint.Token, maxChunkBytes: defaultChunkBytes}
	c, err := s.connect(ctx, s.deadline(ctx), time.Time{})
	if err != nil {
		return nil, s.explained(err)
	}
	s.giveBack(c)
	return s, nil
}

// deadline of a request that begins now, including all its steps.
func (s *session) deadline(ctx context.Context) time.Time {
	deadline := time.Now().Add(s.endpoint.Timeout)
	if own, ok := ctx.Deadline(); ok {
		return earlier(own, deadline)
	}
	return deadline
}

// parting is a context for a request that only cleans up: it outlives its caller's, and ends soon
// if the gateway is silent.
func (s *session) parting() (context.Context, context.CancelFunc) {
	patience := s.endpoint.Timeout
	switch s.silences.Load() {
	case 0:
	case 1:
		patience = min(patience, partingPatience)
	default:
		patience = 0
	}
	return context.WithTimeout(context.Background(), patience)
}

// call is one request and its reply, over a new connection if the old one broke.
func call[Request, Reply any](
	ctx context.Context, s *session, method wire.Method[Request, Reply], path string, request *Request,
) (*Reply, error) {
	return callBy(ctx, s, method, path, request, s.deadline(ctx))
}

func callBy[Request, Reply any](
	ctx context.Context, s *session, method wire.Method[Request, Reply], path string, request *Request,
	deadline time.Time,
) (*Reply, error) {
	var reply *Reply
	mutation := mutating(request)
	err := s.attempt(ctx, operation{method.Name, path, mutation != nil}, deadline,
		func(c *connection, isRetry bool) error {
			if mutation != nil && isRetry {
				mutation.IsRetry = true
			}
			reply = new(Reply)
			return c.call(method.Name, path, request, reply)
		})
	return reply, err
}

// mutate is call for a request that changes something.
func mutate[Request, Reply any](
	ctx context.Context, s *session, method wire.Method[Request, Reply], path string, request *Request,
) (*Reply, error) {
	mutating(request).RequestID = newRequestID()
	return call(ctx, s, method, path, request)
}

// callOnce is call without retries, for a reply that can be received only once.
func callOnce[Request, Reply any](
	ctx context.Context, s *session, method wire.Method[Request, Reply], path string, request *Request,
) (*Reply, error) {
	reply := new(Reply)
	err := s.once(ctx, s.deadline(ctx), func(c *connection) error {
		return c.call(method.Name, path, request, reply)
	})
	return reply, atPath(s.explained(err), path)
}

func mutating(request any) *wire.Mutation {
	if changing, ok := request.(interface{ Mutating() *wire.Mutation }); ok {
		return changing.Mutating()
	}
	return nil
}

func newRequestID() []byte {
	id := make([]byte, requestIDBytes)
	_, _ = rand.Read(id) // never fails
	return id
}

// once is an exchange without retries.
func (s *session) once(ctx context.Context, deadline time.Time, exchange func(*connection) error) error {
	c, err := s.borrow(ctx, deadline, time.Time{}, false)
	if err != nil {
		return err
	}
	defer s.giveBack(c)
	return exchange(c)
}

// attempt retries an exchange while the connection breaks. Every request may be repeated: it either
// changes nothing, or carries the id by which the gateway recognises the repetition.
func (s *session) attempt(
	ctx context.Context, of operation, deadline time.Time, exchange func(c *connection, isRetry bool) error,
) error {
	began := time.Now()
	var connectBy time.Time // once a connection was lost
	sent, renewed := false, false
	for attempt := 1; ; attempt++ {
		connecting := true
		err := func() error {
			c, err := s.borrow(ctx, deadline, connectBy, !of.isMutation)
			if err != nil {
				return err
			}
			defer s.giveBack(c)
			connecting = false
			return exchange(c, sent)
		}()
		var lost *lostError
		var failure *Error
		switch {
		case err == nil:
			return nil
		case errors.As(err, &lost):
			if connectBy.IsZero() {
				// If a gateway doesn't accept connections now, wait for it once.
				since := began
				if lost.sent {
					since = time.Now()
				}
				connectBy = earlier(deadline, since.Add(s.endpoint.ConnectTimeout))
			}
			sent = sent || lost.sent
			s.dropIdle()
			pause := pauseAfter(attempt)
			if attempt == attempts || time.Now().Add(pause).After(connectBy) {
				s.silences.Add(1)
				if sent && of.isMutation {
					return unknownOutcome(of, lost.reason, ctx.Err())
				}
				return atPath(s.explained(err), of.path)
			}
			if !sleep(ctx, pause) {
				return s.interrupted(of, ended(ctx.Err(), of.method, s.endpoint.uri.hostPort(), of.path), sent)
			}
		case !errors.As(err, &failure):
			return err
		case failure.Kind == Unauthenticated && !renewed:
			// The session idled out, or its gateway was replaced.
			renewed = true
			s.dropIdle()
		case failure.Kind == Canceled || failure.Kind == TimedOut:
			return s.interrupted(of, failure, sent || !connecting)
		case connecting && sent && of.isMutation:
			return unknownOutcome(of, failure.Message, failure)
		default:
			return atPath(failure, of.path)
		}
	}
}

// interrupted is the error of a request that got no answer before its time was over.
func (s *session) interrupted(of operation, failure *Error, sent bool) error {
	if failure.Kind == Canceled && of.isMutation && sent {
		return unknownOutcome(of, failure.Message, failure.cause)
	}
	failure.RetrySafe = failure.Kind == TimedOut && !of.isMutation
	return atPath(failure, of.path)
}

// unknownOutcome is the error of a change that was sent, if no gateway can be asked about it.
func unknownOutcome(of operation, why string, cause error) error {
	failure := newError(OutcomeUnknown, of.method+": the connection broke ("+why+
		"), and no gateway came back to say whether it was done", of.path)
	failure.cause = cause
	return failure
}

// atPath names the path in an error that has none.
func atPath(err error, path string) error {
	var failure *Error
	if errors.As(err, &failure) && failure.Path == "" {
		failure.Path = path
	}
	return err
}

// explained makes a lost connection the caller's error.
func (s *session) explained(err error) error {
	var lost *lostError
	if !errors.As(err, &lost) {
		return err
	}
	where := s.endpoint.uri.hostPort()
	if lost.tls {
		return newError(Unavailable, "TLS with "+where+": "+lost.reason, "")
	}
	question := "is it running, and is the address right?"
	if lost.unanswered && s.endpoint.TLS == nil {
		question = "is it running, is the address right, and does it serve TLS only?"
	}
	return newError(Unavailable, "no gateway at "+where+" ("+lost.reason+"); "+question, "")
}

// pauseAfter an attempt: half of it is random, so that the clients of one gateway don't return at
// once.
func pauseAfter(attempt int) time.Duration {
	longest := firstPause << (attempt - 1)
	return longest/2 + mathrand.N(longest/2)
}

// sleep says whether the whole time passed before ctx was done.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func earlier(one, other time.Time) time.Time {
	if one.Before(other) {
		return one
	}
	return other
}

// -- Connections

// borrow returns a connection for use until the deadline; the caller gives it back. With
// `trusting`, it may be one that has ended a moment ago. If none is idle, it opens another one: by
// `connectBy`, if that isn't zero.
func (s *session) borrow(
	ctx context.Context, deadline, connectBy time.Time, trusting bool,
) (*connection, error) {
	for {
		c, err := s.takeIdle()
		if err != nil {
			return nil, err
		}
		if c == nil {
			return s.connect(ctx, deadline, connectBy)
		}
		if trusting && c.isFresh() || !c.endedWhileIdle() {
			c.take(ctx, deadline)
			return c, nil
		}
		c.close()
	}
}

// takeIdle returns nil if no connection is idle.
func (s *session) takeIdle() (*connection, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, closedError("the client", "")
	}
	if len(s.idle) == 0 {
		return nil, nil
	}
	last := len(s.idle) - 1
	c := s.idle[last]
	s.idle = s.idle[:last]
	return c, nil
}

func (s *session) giveBack(c *connection) {
	usable := c.release()
	s.mu.Lock()
	usable = usable && !s.closed && c.login == s.login && len(s.idle) < maxIdleConnections
	if usable {
		s.idle = append(s.idle, c)
	}
	s.mu.Unlock()
	if !usable {
		c.close()
	}
}

func (s *session) dropIdle() {
	s.mu.Lock()
	dropped := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, c := range dropped {
		c.close()
	}
}

// connect opens a connection and attaches it to the session.
func (s *session) connect(ctx context.Context, deadline, connectBy time.Time) (*connection, error) {
	limit := earlier(deadline, time.Now().Add(s.endpoint.ConnectTimeout))
	if !connectBy.IsZero() {
		limit = earlier(limit, connectBy)
	}
	conn, err := dial(ctx, &s.endpoint, limit)
	if err != nil {
		return nil, err
	}
	c := s.connection(conn)
	c.take(ctx, deadline)
	err = s.checkSecrecy(c)
	if err == nil {
		err = s.attach(ctx, c, deadline)
	}
	if err != nil {
		if lost := (*lostError)(nil); errors.As(err, &lost) {
			lost.unanswered = c.lastReply.IsZero()
		}
		c.release()
		c.close()
		return nil, err
	}
	return c, nil
}

func (s *session) connection(conn net.Conn) *connection {
	protocol := s.endpoint.Wire.protocol()
	return &connection{
		conn:     conn,
		encoder:  wire.NewEncoder(protocol),
		decoder:  wire.NewDecoder(protocol, conn),
		gateway:  s.endpoint.uri.hostPort(),
		timeout:  s.endpoint.Timeout,
		silences: &s.silences,
	}
}

// checkSecrecy refuses to send credentials over links that others could read.
func (s *session) checkSecrecy(c *connection) error {
	isSecret := s.endpoint.Password != "" || s.endpoint.Token != ""
	if isSecret && s.endpoint.TLS == nil && !c.leadsToThisMachine() {
		return newError(Unauthenticated, "a password or token isn't sent to another machine in the "+
			"clear; use TLS (Options.TLS)", "")
	}
	return nil
}

// attach attaches by the session's token, in parallel with other goroutines; or by a login that
// serves all of them.
func (s *session) attach(ctx context.Context, c *connection, deadline time.Time) error {
	refused := -1 // the login whose token isn't good any more
	for {
		token, login := s.current()
		if token != "" && login != refused {
			err := s.open(c, &wire.OpenSessionRequest{Token: token}, login)
			// If the caller gave the token, there is no other login.
			if kindOf(err) != Unauthenticated || s.endpoint.Token != "" || c.broken {
				return err
			}
			refused = login
		}
		isOurs := false
		err := s.turn.run(ctx, deadline, func() error {
			_, latest := s.current()
			if isOurs = latest == login; !isOurs {
				return nil
			}
			return s.open(c, &wire.OpenSessionRequest{
				Store: s.endpoint.Store, User: s.endpoint.User, Password: s.endpoint.Password,
			}, login+1)
		}, func(cause error) error {
			gateway := s.endpoint.uri.hostPort()
			if cause != nil {
				return ended(cause, wire.OpenSession.Name, gateway, "")
			}
			return noAnswer(wire.OpenSession.Name, gateway, s.endpoint.Timeout)
		})
		if isOurs || err != nil {
			return err
		}
		// Another goroutine has logged in meanwhile; its token serves this one, too.
	}
}

func (s *session) current() (token string, login int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, s.login
}

func (s *session) open(c *connection, request *wire.OpenSessionRequest, login int) error {
	request.Version = wire.Version
	var reply wire.OpenSessionReply
	if err := c.call(wire.OpenSession.Name, "", request, &reply); err != nil {
		if lost := (*lostError)(nil); errors.As(err, &lost) {
			lost.sent = false // the caller's own request wasn't sent yet
		}
		return err
	}
	most := reply.Limits.MaxChunkBytes
	if most != nil && *most <= 0 {
		return newError(Internal, fmt.Sprintf("openSession: the gateway takes %d bytes at most", *most), "")
	}
	c.login = login
	s.mu.Lock()
	defer s.mu.Unlock()
	if login < s.login {
		return nil // of a session that another login has replaced meanwhile
	}
	s.login = login
	s.incarnation = reply.Incarnation
	s.token = reply.Token
	s.user = reply.User
	s.store = storeInfo(&reply.Store)
	if most != nil {
		s.maxChunkBytes = int(*most)
	}
	return nil
}

// currentIncarnation of the session on the gateway. If a handle has another one, the handle is
// gone. 0 if the gateway doesn't tell.
func (s *session) currentIncarnation() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.incarnation
}

// chunk is the number of bytes of one readRange or appendData.
func (s *session) chunk() int { return min(chunkBytes, s.chunkLimit()) }

func (s *session) chunkLimit() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.maxChunkBytes
}

// release closes an open file or listing of the gateway without caring for the outcome. With
// `abandon`, the gateway drops a writer without waiting for its bytes.
func (s *session) release(handle int64, abandon bool) {
	ctx, cancel := s.parting()
	defer cancel()
	request := &wire.CloseFileRequest{Handle: handle, Abandon: abandon}
	if abandon {
		request.RequestID = newRequestID() // with an id, it runs even if the connection ends
	}
	// If it fails, the gateway drops the handle with the session.
	_ = s.once(ctx, s.deadline(ctx), func(c *connection) error {
		return c.call(wire.CloseFile.Name, "", request, &wire.CloseFileReply{})
	})
}

// close ends the session, unless it was given as a token.
func (s *session) close() error {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if s.endpoint.Token == "" {
		ctx, cancel := s.parting()
		defer cancel()
		_, err = callOnce(ctx, s, wire.CloseSession, "", &wire.CloseSessionRequest{})
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.dropIdle()
	switch kindOf(err) {
	case Unavailable, TimedOut, Unauthenticated:
		return nil // the session is gone already; but a file that fails to close is an error
	}
	return err
}

// loginInTurn lets one goroutine log in, and the others have its outcome.
type loginInTurn struct {
	mu      sync.Mutex
	current *loginAttempt
}

type loginAttempt struct {
	over chan struct{}
	err  error
}

// run logs in, or waits for the goroutine that does so already, and returns its error. It returns
// `late` of the cause if ctx ends before, and of nil if it takes too long.
func (t *loginInTurn) run(
	ctx context.Context, deadline time.Time, login func() error, late func(cause error) error,
) error {
	t.mu.Lock()
	theirs := t.current
	if theirs != nil {
		t.mu.Unlock()
		return theirs.follow(ctx, deadline, late)
	}
	ours := &loginAttempt{over: make(chan struct{})}
	t.current = ours
	t.mu.Unlock()
	ours.err = login()
	t.mu.Lock()
	t.current = nil
	t.mu.Unlock()
	close(ours.over)
	return ours.err
}

func (a *loginAttempt) follow(ctx context.Context, deadline time.Time, late func(cause error) error) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return late(ctx.Err())
	case <-timer.C:
		return late(nil)
	case <-a.over:
	}
	// Copies, since callers name their own paths in it.
	if failure := (*Error)(nil); errors.As(a.err, &failure) {
		if failure.Kind == Canceled || failure.cause != nil {
			return nil // the other caller's context ended; this one tries again
		}
		another := *failure
		return &another
	}
	if lost := (*lostError)(nil); errors.As(a.err, &lost) {
		another := *lost
		return &another
	}
	return a.err
}
