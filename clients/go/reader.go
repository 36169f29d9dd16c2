package strait

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// A Reader is a remote file open to read. For sequential reads it keeps requests in flight ahead,
// so that small reads run at the speed of the connection.
//
// It is for one goroutine at a time; ReadAt for any number of them. Callers don't notice a broken
// connection if the gateway returns in time.
type Reader struct {
	ctx     context.Context // of the whole time that it is open
	session *session
	path    string
	window  int // requests in flight from the first sequential read on

	opening  sync.Mutex
	handle   atomic.Int64
	length   atomic.Int64
	identity []byte // nil where the store can't tell
	closed   atomic.Bool

	position       int64
	sequentialFrom int64 // a read at this position continues the one before
	ahead          *readAhead
}

var _ interface {
	io.ReadSeekCloser
	io.ReaderAt
	io.WriterTo
} = (*Reader)(nil)

func openReader(ctx context.Context, s *session, path string, window int) (*Reader, error) {
	r := &Reader{ctx: ctx, session: s, path: path, window: window, sequentialFrom: -1}
	if err := r.open(s.deadline(ctx)); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Reader) open(deadline time.Time) error {
	reply, err := callBy(r.ctx, r.session, wire.OpenFile, r.path, &wire.OpenFileRequest{Path: r.path}, deadline)
	if err != nil {
		return err
	}
	if reply.Length < r.length.Load() {
		return r.replaced("a shorter one", reply.Handle)
	}
	if r.identity != nil && reply.Identity != nil && !bytes.Equal(r.identity, reply.Identity) {
		return r.replaced("another", reply.Handle)
	}
	r.handle.Store(reply.Handle)
	r.length.Store(reply.Length)
	if reply.Identity != nil {
		r.identity = reply.Identity
	}
	return nil
}

func (r *Reader) replaced(by string, handle int64) error {
	r.session.release(handle, false)
	failure := newError(Unavailable, "the file was replaced by "+by, r.path)
	failure.RetrySafe = false
	return failure
}

// Path is the remote path.
func (r *Reader) Path() string { return r.path }

// Size is the number of bytes of the file when it was opened.
func (r *Reader) Size() int64 { return r.length.Load() }

// Close closes the file on the gateway. It fails only if it is closed already.
func (r *Reader) Close() error {
	if r.closed.Swap(true) {
		return closedError("the file", r.path)
	}
	r.endAhead()
	r.session.release(r.handle.Load(), false)
	return nil
}

func (r *Reader) endAhead() {
	if r.ahead != nil {
		r.ahead.close()
		r.ahead = nil
	}
}

// Read reads the bytes at hand, at least one; io.EOF at the end of the file.
func (r *Reader) Read(into []byte) (int, error) {
	if r.closed.Load() {
		return 0, closedError("the file", r.path)
	}
	if len(into) == 0 {
		return 0, nil
	}
	deadline := r.session.deadline(r.ctx)
	count, err := r.readAhead(into, deadline)
	if err != nil {
		return 0, err
	}
	if count == 0 {
		size := min(len(into), r.session.chunk())
		if count, err = r.readOnce(r.position, into[:size], deadline); err != nil {
			return 0, err
		}
	}
	r.position += int64(count)
	r.sequentialFrom = r.position
	if count == 0 {
		return 0, io.EOF
	}
	return count, nil
}

// WriteTo writes the rest of the file, by large requests.
func (r *Reader) WriteTo(to io.Writer) (int64, error) {
	buffer := make([]byte, r.session.chunk())
	r.sequentialFrom = r.position
	var written int64
	for {
		count, err := r.Read(buffer)
		if err == io.EOF {
			return written, nil
		}
		if err != nil {
			return written, err
		}
		count, err = to.Write(buffer[:count])
		written += int64(count)
		if err != nil {
			return written, err
		}
	}
}

// ReadAt reads exactly its range, or to the end of the file with io.EOF; the position stays. Any
// number of goroutines may call it.
func (r *Reader) ReadAt(into []byte, offset int64) (int, error) {
	if r.closed.Load() {
		return 0, closedError("the file", r.path)
	}
	if offset < 0 {
		return 0, newError(InvalidArgument, "a negative offset", r.path)
	}
	filled := 0
	if len(into) > r.session.chunk() && offset < r.length.Load() {
		var err error
		if filled, err = r.readRange(into, offset); err != nil {
			return filled, err
		}
	}
	for filled < len(into) {
		count, err := r.readOnce(offset+int64(filled), into[filled:], r.session.deadline(r.ctx))
		if err != nil {
			return filled, err
		}
		if count == 0 {
			return filled, io.EOF
		}
		filled += count
	}
	return filled, nil
}

// readRange reads what it can by several requests in flight.
func (r *Reader) readRange(into []byte, offset int64) (int, error) {
	end := min(r.length.Load(), offset+int64(len(into)))
	ahead, err := newReadAhead(r.ctx, r.session, r.path, r.handle.Load(), offset, end, maxWindow)
	filled := 0
	if err == nil {
		defer ahead.close()
		for {
			var count int
			count, err = ahead.read(into[filled:], r.session.deadline(r.ctx))
			if filled += count; err != nil || count == 0 {
				break
			}
		}
	}
	if isOver(err) {
		return filled, atPath(err, r.path) // for another try too
	}
	// Else single requests, with retries, continue or report the error.
	return filled, nil
}

// isOver says whether an error leaves no time for another try.
func isOver(err error) bool {
	var failure *Error
	return errors.As(err, &failure) && (failure.Kind == Canceled || failure.Kind == TimedOut)
}

// readAhead returns bytes from the requests in flight; 0 if the read isn't sequential, or they
// ended.
func (r *Reader) readAhead(into []byte, deadline time.Time) (int, error) {
	sequential := r.sequentialFrom == r.position || len(into) >= r.session.chunk()
	if !sequential || r.position >= r.length.Load() {
		r.endAhead()
		return 0, nil
	}
	var err error
	if r.ahead == nil {
		window := max(r.window, len(into)/r.session.chunk())
		r.ahead, err = newReadAhead(
			r.ctx, r.session, r.path, r.handle.Load(), r.position, r.length.Load(), window)
	}
	count := 0
	if err == nil {
		count, err = r.ahead.read(into, deadline)
	}
	if count == 0 || err != nil {
		r.endAhead()
	}
	if isOver(err) {
		return count, atPath(err, r.path) // for another try too
	}
	// Else a single request, with its retries, tries again or reports the error.
	return count, nil
}

// readOnce is one request; its reply may be short.
func (r *Reader) readOnce(offset int64, into []byte, deadline time.Time) (int, error) {
	into = into[:min(len(into), r.session.chunkLimit())]
	handle := r.handle.Load()
	count, err := r.requestRange(offset, into, deadline)
	switch kindOf(err) {
	case InvalidArgument, NotFound, Unauthenticated:
	default:
		return count, err
	}
	// The handle is gone, for example because the session ended.
	r.opening.Lock()
	defer r.opening.Unlock()
	if r.handle.Load() == handle {
		if err := r.open(deadline); err != nil {
			return 0, err
		}
	}
	return r.requestRange(offset, into, deadline)
}

func (r *Reader) requestRange(offset int64, into []byte, deadline time.Time) (int, error) {
	count := 0
	request := &wire.ReadRangeRequest{Handle: r.handle.Load(), Offset: offset, Length: int32(len(into))}
	err := r.session.attempt(r.ctx, operation{wire.ReadRange.Name, r.path, false}, deadline,
		func(c *connection, _ bool) error {
			if err := c.send(wire.ReadRange.Name, request); err != nil {
				return err
			}
			var err error
			count, err = c.receiveRange(r.path, into)
			return err
		})
	return count, err
}

// Seek sets the position of the next read; it may lie past the end.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	if r.closed.Load() {
		return 0, closedError("the file", r.path)
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.position
	case io.SeekEnd:
		offset += r.length.Load()
	default:
		return 0, newError(InvalidArgument, "an unknown whence", r.path)
	}
	if offset < 0 {
		return 0, newError(InvalidArgument, "a negative position", r.path)
	}
	if r.position = offset; offset != r.sequentialFrom {
		r.endAhead()
		r.sequentialFrom = -1
	}
	return offset, nil
}
