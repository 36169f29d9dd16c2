package strait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// maxPosition: no file is larger, and sums of offsets and sizes below it don't overflow.
const maxPosition = 1 << 62

// A Writer is a remote file open to write at its end. Write returns when the bytes are on their
// way, with several requests in flight at once. A later call reports an error: Flush, Sync or Close
// at the latest.
//
// After NoSpace and Unavailable the file stays open: the writer keeps the bytes that the gateway
// hasn't taken, and sends them again with later calls. Flush, Sync and Close may be repeated. A
// failed Write says how many bytes it has taken; write only the others again.
//
// It is for one goroutine at a time. A file that isn't closed stays open on the gateway until its
// session ends.
type Writer struct {
	ctx         context.Context // of the whole time that it is open
	session     *session
	path        string
	handle      int64
	incarnation int64  // the session's when it was opened
	chunk       int    // bytes of an append at most; the session's may change
	sent        int64  // the file's length with all appends
	pending     []byte // not yet a request
	// Appends without a reply, in order. The first `awaited` of them are on their way on the
	// connection; the others have to be sent (again).
	kept     []*wire.AppendDataRequest
	awaited  int
	c        *connection // while appends are on their way
	spare    []byte      // memory of an append that is done
	failure  error
	refusal  *Error // the latest error, if the file goes on after it
	replicas *int32
	closed   bool
}

var _ io.WriteCloser = (*Writer)(nil)

func newWriter(ctx context.Context, s *session, path string, opened *wire.OpenWriterReply) (*Writer, error) {
	if opened.Position < 0 || opened.Position > maxPosition {
		return nil, newError(Internal,
			fmt.Sprintf("the gateway says the file ends at %d", opened.Position), path)
	}
	return &Writer{
		ctx: ctx, session: s, path: path, handle: opened.Handle,
		incarnation: s.currentIncarnation(), chunk: s.chunk(), sent: opened.Position,
	}, nil
}

// Path is the remote path.
func (w *Writer) Path() string { return w.path }

// Position is the file's length including all written bytes.
func (w *Writer) Position() int64 { return w.sent + int64(len(w.pending)) }

// Replicas is how many replicas held all written bytes, at least, at the last Flush, Sync or Close;
// false if the store gives no number, or if nothing was written.
func (w *Writer) Replicas() (count int, told bool) {
	if w.replicas == nil {
		return 0, false
	}
	return int(*w.replicas), true
}

// Write takes all bytes, or says how many.
func (w *Writer) Write(data []byte) (int, error) {
	if err := w.checkUsable(); err != nil {
		return 0, err
	}
	taken := 0
	for taken < len(data) {
		count := min(len(data)-taken, w.chunk-len(w.pending))
		if count == w.chunk-len(w.pending) {
			// Before taking any byte of it, so that a failure leaves them all to the caller.
			if err := w.settle(maxWindow - 1); err != nil {
				return taken, err
			}
		}
		if cap(w.pending) < w.chunk {
			w.grow(len(w.pending) + count)
		}
		w.pending = append(w.pending, data[taken:taken+count]...)
		taken += count
		if len(w.pending) == w.chunk {
			if err := w.sendPending(); err != nil {
				return taken, err
			}
		}
	}
	return taken, nil
}

// grow gives pending memory for `size` bytes: a whole chunk's if that is near.
func (w *Writer) grow(size int) {
	if size <= cap(w.pending) {
		return
	}
	memory := w.spare
	if w.spare = nil; cap(memory) < size {
		if size > w.chunk/4 {
			size = w.chunk
		}
		memory = make([]byte, 0, size)
	}
	w.pending = append(memory[:0], w.pending...)
}

// Flush puts all written bytes in every replica's memory, visible to readers that open the file
// afterwards. In object stores it promises nothing.
func (w *Writer) Flush() error { return w.flush(wire.Flush) }

// Sync puts all written bytes on stable storage. In object stores it promises nothing.
func (w *Writer) Sync() error { return w.flush(wire.Sync) }

func (w *Writer) flush(mode int32) error {
	if err := w.checkUsable(); err != nil {
		return err
	}
	if err := w.sendAll(); err != nil {
		return err
	}
	reply, err := call(w.ctx, w.session, wire.FlushFile, w.path,
		&wire.FlushFileRequest{Handle: w.handle, Mode: mode})
	if err != nil {
		return w.explained(err)
	}
	w.refusal = nil
	w.replicas = reply.Replicas
	return nil
}

// Close syncs, and lets other clients write the file. After NoSpace and Unavailable the file is
// still open, and may be closed again; after any other error it is closed.
func (w *Writer) Close() error {
	if w.closed {
		return closedError("the file", w.path)
	}
	err := w.failure
	if err == nil {
		err = w.sendAll()
	}
	if err == nil {
		var reply *wire.CloseFileReply
		reply, err = mutate(w.ctx, w.session, wire.CloseFile, w.path, &wire.CloseFileRequest{Handle: w.handle})
		if err == nil {
			w.replicas = reply.Replicas
			w.closed = true
			return w.checkLength(reply.Length)
		}
		err = w.explained(err)
	}
	if !w.mayGoOn(err) {
		w.Abandon()
	}
	return err
}

// checkLength holds the closed file's length, if the gateway tells it, against what was written.
func (w *Writer) checkLength(told *int64) error {
	if told == nil || *told < 0 || *told == w.sent {
		return nil
	}
	return newError(Internal,
		fmt.Sprintf("close: the file has %d bytes instead of %d", *told, w.sent), w.path)
}

// Abandon ends the file, whatever its state, and doesn't wait for its store. Flushed bytes stay;
// other bytes may be lost. After Close it does nothing.
func (w *Writer) Abandon() {
	if w.closed {
		return
	}
	w.closed = true
	w.kept = nil
	w.giveBack()
	w.session.release(w.handle, true)
}

func (w *Writer) checkUsable() error {
	if w.closed {
		return closedError("the file", w.path)
	}
	return w.failure
}

// -- Appends on their way

// sendAll sends all written bytes, and waits for the replies.
func (w *Writer) sendAll() error {
	if err := w.sendPending(); err != nil {
		return err
	}
	return w.settle(0)
}

// sendPending sends the pending bytes if all before them are on their way; otherwise the next step
// does.
func (w *Writer) sendPending() error {
	if len(w.pending) == 0 {
		return nil
	}
	request := &wire.AppendDataRequest{
		Mutation:       wire.Mutation{RequestID: newRequestID()},
		Handle:         w.handle,
		ExpectedOffset: w.sent,
		Data:           w.pending,
	}
	w.kept = append(w.kept, request)
	w.sent += int64(len(w.pending))
	w.pending, w.spare = w.spare[:0], nil
	if w.awaited+1 < len(w.kept) {
		return nil
	}
	err := w.sendBehind(request)
	if err == nil || isLost(err) {
		if err != nil {
			w.giveBack()
		}
		return nil
	}
	if err = w.failed(err); w.mayGoOn(err) {
		return nil // the next step reports it, or succeeds
	}
	return err
}

// sendBehind sends one append behind those on their way.
func (w *Writer) sendBehind(request *wire.AppendDataRequest) error {
	deadline := w.session.deadline(w.ctx)
	if w.c == nil {
		c, err := w.session.borrow(w.ctx, deadline, time.Time{}, false)
		if err != nil {
			return err
		}
		w.c = c
	}
	w.c.waitUntil(deadline)
	if err := w.c.send(wire.AppendData.Name, request); err != nil {
		return err
	}
	w.awaited++
	return nil
}

// settle takes replies until at most `leave` appends are on their way, and none is to be sent.
func (w *Writer) settle(leave int) error {
	deadline := w.session.deadline(w.ctx)
	var err error
	if len(w.kept) > w.awaited {
		err = w.repeatAll(deadline)
	}
	for err == nil && w.awaited > leave {
		deadline = w.session.deadline(w.ctx)
		w.c.waitUntil(deadline)
		err = w.takeReply()
	}
	if isLost(err) {
		err = w.repeatAll(deadline)
	}
	if err != nil {
		return w.failed(err)
	}
	if len(w.kept) == 0 {
		w.giveBack()
	}
	return nil
}

// takeReply takes the first append's.
func (w *Writer) takeReply() error {
	var reply wire.AppendDataReply
	err := w.c.receive(wire.AppendData.Name, w.path, &reply)
	if err == nil {
		err = w.expect(&reply, w.kept[0])
	}
	if err != nil {
		if w.mayGoOn(err) {
			w.drain()
			w.renew()
		}
		return err
	}
	w.doneWithFirst()
	w.awaited--
	return nil
}

// drain takes the replies behind a refused append's: the gateway has refused those appends too.
// Unless the store took the first one all the same; the next reply then says so.
func (w *Writer) drain() {
	taken := 0
	for number := 1; number < w.awaited; number++ {
		var reply wire.AppendDataReply
		err := w.c.receive(wire.AppendData.Name, w.path, &reply)
		if isLost(err) || isOver(err) {
			break
		}
		if err == nil && isOf(w.kept[number], &reply) {
			taken = number + 1
		}
	}
	for range taken {
		w.doneWithFirst()
	}
}

// renew makes new requests of all appends: the gateway remembers that it refused the old ones.
func (w *Writer) renew() {
	for _, request := range w.kept {
		request.RequestID = newRequestID()
		request.IsRetry = true // the store may have taken it all the same
	}
	w.giveBack()
}

// repeatAll repeats requests without a reply; the gateway recognises those it has executed. The
// deadline is the first request's, which may have waited already.
func (w *Writer) repeatAll(deadline time.Time) error {
	w.giveBack()
	for len(w.kept) != 0 {
		request := w.kept[0]
		request.IsRetry = true
		var reply wire.AppendDataReply
		err := w.session.attempt(w.ctx, operation{wire.AppendData.Name, w.path, true}, deadline,
			func(c *connection, _ bool) error {
				reply = wire.AppendDataReply{}
				err := c.call(wire.AppendData.Name, w.path, request, &reply)
				if w.mayGoOn(err) {
					w.renew()
				}
				return err
			})
		if err == nil {
			err = w.expect(&reply, request)
		}
		if err != nil {
			return err
		}
		w.doneWithFirst()
		deadline = w.session.deadline(w.ctx)
	}
	return nil
}

func isOf(request *wire.AppendDataRequest, reply *wire.AppendDataReply) bool {
	return reply.Position == request.ExpectedOffset+int64(len(request.Data))
}

func (w *Writer) expect(reply *wire.AppendDataReply, request *wire.AppendDataRequest) error {
	if isOf(request, reply) {
		return nil
	}
	return newError(Internal, "the gateway counts other bytes than were sent", w.path)
}

func (w *Writer) doneWithFirst() {
	w.spare = w.kept[0].Data[:0]
	w.kept[0] = nil
	w.kept = w.kept[1:]
	w.refusal = nil
}

func (w *Writer) giveBack() {
	w.awaited = 0
	if w.c != nil {
		w.session.giveBack(w.c)
		w.c = nil
	}
}

// mayGoOn says whether the file is still open after this error.
func (w *Writer) mayGoOn(err error) bool {
	kind := kindOf(err)
	return w.failure == nil && (kind == NoSpace || kind == Unavailable)
}

// failed is the caller's error of a step of the appends. The writer keeps it, unless the file goes
// on.
func (w *Writer) failed(err error) error {
	if failure := (*Error)(nil); errors.As(err, &failure) && isOver(failure) {
		of := operation{wire.AppendData.Name, w.path, true}
		err = w.session.interrupted(of, failure, w.awaited > 0)
	}
	err = w.explained(w.session.explained(err))
	if !w.mayGoOn(err) {
		w.failure = err
		w.kept = nil
	}
	w.giveBack()
	return err
}

// explained converts an error for the caller, which doesn't know of handles. It remembers the error
// if the file goes on.
func (w *Writer) explained(err error) error {
	var failure *Error
	if !errors.As(err, &failure) {
		return err
	}
	isUnknownHandle := failure.Kind == InvalidArgument
	if failure.Kind == Unauthenticated ||
		isUnknownHandle && w.session.currentIncarnation() != w.incarnation {
		return newError(OutcomeUnknown, "the session that had the file open has ended; flushed "+
			"bytes are in the file, later ones may be ("+failure.Message+")", w.path)
	}
	if isUnknownHandle && w.refusal != nil {
		// The store couldn't go on, and the gateway has closed the file.
		ended := newError(w.refusal.Kind, "the file ended with an earlier error: "+
			w.refusal.Message+" ("+failure.Message+")", w.path)
		ended.RetrySafe = false
		w.failure = ended
		return ended
	}
	if w.mayGoOn(failure) {
		w.refusal = failure
	}
	return atPath(failure, w.path)
}

func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}
