package strait

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// fakeGateway answers a request, in framed binary, with the fields of a reply that a test gives for its method. The
// test gets the request's bytes.
type fakeGateway struct {
	address string
	limit   atomic.Int64 // the max_chunk_bytes of a new connection
	answers map[string]func(request []byte) string
}

func newFakeGateway(t *testing.T, answers map[string]func([]byte) string) *fakeGateway {
	listener := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { _ = listener.Close() })
	f := &fakeGateway{address: listener.Addr().String(), answers: answers}
	f.limit.Store(1 << 20)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(client)
		}
	}()
	return f
}

func (f *fakeGateway) serve(client net.Conn) {
	defer client.Close()
	for {
		request, err := frame(client)
		if err != nil {
			return
		}
		length := binary.BigEndian.Uint32(request[8:])
		message := bytes.Clone(request[4 : 12+length+4])
		message[3] = 2 // a reply
		fields := ""
		method := string(message[8 : 8+length])
		if method == "openSession" {
			fields = textField(1, "token") + structField(6, i32Field(1, int32(f.limit.Load())))
		} else if answer := f.answers[method]; answer != nil {
			fields = answer(request)
		}
		message = append(message, structField(0, fields)...)
		message = append(message, 0)
		if _, err = client.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
			return
		}
	}
}

func i32Field(id byte, value int32) string {
	return string(binary.BigEndian.AppendUint32([]byte{8, 0, id}, uint32(value)))
}

func i64Field(id byte, value int64) string {
	return string(binary.BigEndian.AppendUint64([]byte{10, 0, id}, uint64(value)))
}

func textField(id byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{11, 0, id}, uint32(len(text)))) + text
}

func structField(id byte, fields string) string { return string([]byte{12, 0, id}) + fields + "\x00" }

func always(fields string) func([]byte) string { return func([]byte) string { return fields } }

// askedRangeOf is the range of a readRange: the message ends with it.
func askedRangeOf(request []byte) (offset int64, length int) {
	end := len(request) - len("\x00\x00")
	return int64(binary.BigEndian.Uint64(request[end-15:])), int(binary.BigEndian.Uint32(request[end-4:]))
}

func isInternal(err error, words string) bool {
	return errors.Is(err, Internal) && strings.Contains(err.Error(), words)
}

func TestAListingNamesOnlyWhatIsInItsDirectory(t *testing.T) {
	const file, directory = 1, 2
	ctx, entries := context.Background(), ""
	fake := newFakeGateway(t, map[string]func([]byte) string{
		"listDirectory": func([]byte) string { return entries },
	})
	client := dialTest(t, fake.address, nil)
	for _, one := range []struct {
		listed, entry string
		kind          int32
		isThere       bool
	}{
		{"/d", "/d/a", file, true},
		{"//d//", "/d/..a", file, true},
		{"/", "/a", directory, true},
		{"/d", "/d", file, true},
		{"/d", "/d", directory, false},
		{"/d", "", file, false},
		{"/d", "a", file, false},
		{"/d", "/d/", directory, false},
		{"/d", "/d/.", directory, false},
		{"/d", "/d/..", directory, false},
		{"/d", "/d/a\x00", file, false},
		{"/d", "/d/a/b", file, false},
		{"/d", "/d/../a", file, false},
		{"/d", "/da/a", file, false},
		{"/", "/a/b", file, false},
	} {
		entries = string([]byte{15, 0, 1, 12, 0, 0, 0, 1}) + textField(1, one.entry) + i32Field(2, one.kind) + "\x00"
		for info, err := range client.List(ctx, one.listed, 0) {
			if one.isThere && (err != nil || info.Path != one.entry) ||
				!one.isThere && !isInternal(err, "isn't in this directory") {
				t.Errorf("%q in %s: %v, %v", one.entry, one.listed, info, err)
			}
		}
	}
	entries = i64Field(2, 7)
	for info, err := range client.List(ctx, "/d", 0) {
		if !isInternal(err, "an empty page that isn't the last") {
			t.Errorf("no entry: %v, %v", info, err)
		}
	}
}

func TestALimitOfNoBytesIsRefused(t *testing.T) {
	fake := newFakeGateway(t, nil)
	for _, limit := range []int64{0, -1} {
		fake.limit.Store(limit)
		if _, err := Dial(context.Background(), fake.address, nil); !isInternal(err, "bytes at most") {
			t.Errorf("%d: %v", limit, err)
		}
	}
}

func TestAnOpenFileKeepsItsLimitWhenAnotherConnectionGetsALowerOne(t *testing.T) {
	ctx := context.Background()
	fake := newFakeGateway(t, map[string]func([]byte) string{
		"openFile": always(i64Field(1, 9) + i64Field(2, 8<<20)),
		"readRange": func(request []byte) string {
			_, length := askedRangeOf(request)
			return textField(1, strings.Repeat("x", length))
		},
	})
	client := dialTest(t, fake.address, nil)
	reader := must[*Reader](t)(client.Open(ctx, "/f"))
	defer reader.Close()
	must[int](t)(io.ReadFull(reader, make([]byte, 1<<20))) // others are asked for ahead
	writer := must[*Writer](t)(client.Create(ctx, "/new", nil))
	defer writer.Abandon()
	must[int](t)(writer.Write(make([]byte, 600_000)))
	fake.limit.Store(4096)
	client.session.dropIdle()
	must[ServerInfo](t)(client.ServerInfo(ctx))
	if limit := client.session.chunkLimit(); limit != 4096 {
		t.Fatalf("the limit is %d", limit)
	}
	must[int](t)(writer.Write(make([]byte, 100_000)))
	must[int](t)(io.ReadFull(reader, make([]byte, 100)))
}

func TestGetOfAFileThatEndsEarlyIsBusy(t *testing.T) {
	fake := newFakeGateway(t, map[string]func([]byte) string{
		"getFileInfo": always(structField(1, "")),
		"openFile":    always(i64Field(1, 9) + i64Field(2, 100)),
		"readRange": func(request []byte) string {
			offset, _ := askedRangeOf(request)
			return textField(1, strings.Repeat("x", int(max(0, 10-offset))))
		},
	})
	client := dialTest(t, fake.address, nil)
	scratch := t.TempDir()
	_, err := client.Get(context.Background(), "/f", filepath.Join(scratch, "copy"), false)
	if !errors.Is(err, Busy) || !strings.Contains(err.Error(), "became shorter") {
		t.Errorf("%v", err)
	}
	if left := must[[]os.DirEntry](t)(os.ReadDir(scratch)); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestAClosedFileHasTheLengthThatWasWritten(t *testing.T) {
	ctx, length := context.Background(), ""
	fake := newFakeGateway(t, map[string]func([]byte) string{
		"createFile": always(i64Field(1, 9) + i64Field(2, 0)),
		"closeFile":  func([]byte) string { return length },
	})
	client := dialTest(t, fake.address, nil)
	for _, length = range []string{"", i64Field(1, 0), i64Field(1, -1)} {
		ok(t, must[*Writer](t)(client.Create(ctx, "/f", nil)).Close())
	}
	length = i64Field(1, 5)
	if err := must[*Writer](t)(client.Create(ctx, "/f", nil)).Close(); !isInternal(err, "5 bytes instead of 0") {
		t.Errorf("%v", err)
	}
}
