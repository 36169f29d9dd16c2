package strait

import (
	"context"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

const (
	// chunkBytes of one request: large enough that its cost is small beside its bytes.
	chunkBytes = 1 << 20
	// maxWindow requests in flight: 16 MiB, which at 1 Gbit/s is 134 ms of distance.
	maxWindow = 16
)

// readAhead reads a range of a file in order, with several requests in flight on one connection.
// It is for one goroutine at a time.
type readAhead struct {
	session   *session
	c         *connection
	path      string
	handle    int64
	next, end int64 // of the file: not yet requested, and not to be
	chunk     int   // bytes of a request, and of the memory for its reply; the session's may change
	window    int
	chunks    []*aheadChunk // in order; the first has the next byte
	asked     []askedRange  // requests in flight, in order
	spare     []byte
	isOver    bool // the gateway sent an empty reply
}

// aheadChunk is a piece of the file. The gateway has sent the first `received` of its bytes, and the program has got
// the first `taken`.
type aheadChunk struct {
	offset                  int64
	length, received, taken int
	data                    []byte
}

type askedRange struct {
	chunk *aheadChunk
	bytes int
}

func newReadAhead(
	ctx context.Context, s *session, path string, handle, begin, end int64, window int,
) (*readAhead, error) {
	c, err := s.borrow(ctx, s.deadline(ctx), time.Time{}, true)
	if err != nil {
		return nil, err
	}
	return &readAhead{
		session: s, c: c, path: path, handle: handle, next: begin, end: end, chunk: s.chunk(),
		window: min(window, maxWindow),
	}, nil
}

// close gives the connection back. One with requests in flight isn't used again.
func (a *readAhead) close() { a.session.giveBack(a.c) }

// read returns the next bytes, at least one; 0: no more.
func (a *readAhead) read(into []byte, deadline time.Time) (int, error) {
	a.c.waitUntil(deadline)
	if err := a.fillWindow(); err != nil || len(a.chunks) == 0 {
		return 0, err
	}
	chunk := a.chunks[0]
	for chunk.received < chunk.length && !a.isOver {
		next := a.asked[0]
		if next.chunk == chunk && chunk.received == 0 && next.bytes <= len(into) {
			return a.receiveDirectly(chunk, into)
		}
		if next.chunk.data == nil {
			next.chunk.data = a.memory()
		}
		count, err := a.receive(next.chunk.data[next.chunk.received:])
		if err != nil {
			return 0, err
		}
		next.chunk.received += count
	}
	count := copy(into, chunk.data[chunk.taken:chunk.received])
	chunk.taken += count
	if count != 0 && chunk.taken == chunk.length {
		return count, a.finishChunk()
	}
	return count, nil
}

// receiveDirectly receives into the caller's memory. After a short reply, the chunk is the rest.
func (a *readAhead) receiveDirectly(chunk *aheadChunk, into []byte) (int, error) {
	count, err := a.receive(into)
	if err != nil {
		return 0, err
	}
	chunk.offset += int64(count)
	chunk.length -= count
	if chunk.length == 0 {
		err = a.finishChunk()
	}
	return count, err
}

// receive takes the next reply; it requests the missing bytes of a short one again.
func (a *readAhead) receive(into []byte) (int, error) {
	asked := a.asked[0]
	count, err := a.c.receiveRange(a.path, into[:asked.bytes])
	if err != nil {
		return 0, err
	}
	a.asked = a.asked[1:]
	if count == 0 {
		a.isOver = true
	} else if count < asked.bytes {
		arrived := int64(asked.chunk.received + count)
		err = a.request(asked.chunk, asked.chunk.offset+arrived, asked.bytes-count)
	}
	return count, err
}

func (a *readAhead) memory() []byte {
	if data := a.spare; data != nil {
		a.spare = nil
		return data
	}
	return make([]byte, a.chunk)
}

func (a *readAhead) finishChunk() error {
	if data := a.chunks[0].data; data != nil {
		a.spare = data
	}
	a.chunks = a.chunks[1:]
	// As in TCP's slow start: a reader of few bytes doesn't pay for many, and a distant gateway is
	// busy after a few round trips.
	a.window = min(a.window+1, maxWindow)
	return a.fillWindow()
}

func (a *readAhead) fillWindow() error {
	for len(a.chunks) < a.window && a.next < a.end && !a.isOver {
		length := min(int64(a.chunk), a.end-a.next)
		chunk := &aheadChunk{offset: a.next, length: int(length)}
		a.chunks = append(a.chunks, chunk)
		a.next += length
		if err := a.request(chunk, chunk.offset, chunk.length); err != nil {
			return err
		}
	}
	return nil
}

func (a *readAhead) request(chunk *aheadChunk, offset int64, bytes int) error {
	err := a.c.send(wire.ReadRange.Name,
		&wire.ReadRangeRequest{Handle: a.handle, Offset: offset, Length: int32(bytes)})
	if err == nil {
		a.asked = append(a.asked, askedRange{chunk, bytes})
	}
	return err
}
