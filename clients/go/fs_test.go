package strait

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

func TestFS(t *testing.T) {
	client := dialTest(t, sharedGateway(t).address, nil)
	ctx, directory := context.Background(), uniquePath()
	defer func() { _ = client.RemoveAll(ctx, directory) }()
	names := []string{"a", "empty", "sub/b", "sub/deep/ü c", "sub/deep/d"}
	for _, name := range names {
		writeFile(t, client, directory+"/tree/"+name, pattern(1, 0, map[string]int{"a": 100, "empty": 0}[name]))
	}
	ok(t, client.Mkdirs(ctx, directory+"/tree/void", nil))
	ok(t, fstest.TestFS(client.FS(directory+"/tree"), append(names, "void")...))

	// Apart: TestFS reads at each offset of a file.
	writeFile(t, client, directory+"/large", pattern(1, 0, 3<<20+5))
	fsys := client.FS(directory)
	if entries, err := fsys.ReadDir("large"); !errors.Is(err, syscall.ENOTDIR) || len(entries) != 0 {
		t.Errorf("a file has entries: %v, %v", entries, err)
	}
	open := must[fs.File](t)(fsys.Open("large"))
	defer open.Close()
	var _ = open.(io.ReaderAt)
	seeker := open.(io.Seeker)
	if end := must[int64](t)(seeker.Seek(-5, io.SeekEnd)); end != 3<<20 {
		t.Errorf("the position is %d", end)
	}
	if rest := must[[]byte](t)(io.ReadAll(open)); len(rest) != 5 {
		t.Errorf("%d bytes are left", len(rest))
	}
	brief, cancel := context.WithTimeout(ctx, -time.Second)
	defer cancel()
	if _, err := fsys.WithContext(brief).Stat("large"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without time: %v", err)
	}
}

func TestErrorsAreThoseOfGo(t *testing.T) {
	client := dialTest(t, sharedGateway(t).address, nil)
	ctx, directory := context.Background(), uniquePath()
	defer func() { _ = client.RemoveAll(ctx, directory) }()
	writeFile(t, client, directory+"/file", nil)
	_, missing := client.Stat(ctx, directory+"/missing")
	_, missingToFS := client.FS(directory).Open("missing")
	_, exists := client.Create(ctx, directory+"/file", nil)
	notEmpty := client.Remove(ctx, directory)
	_, isDirectory := client.Open(ctx, directory)
	_, isFile := client.Stat(ctx, directory+"/file/x")
	_, invalid := client.Stat(ctx, directory+"/../x")
	for _, expected := range []struct {
		err    error
		is     []error
		path   string
		prefix string
	}{
		{missing, []error{fs.ErrNotExist, NotFound, syscall.ENOENT}, "/missing", ""},
		{missingToFS, []error{fs.ErrNotExist, NotFound, syscall.ENOENT}, "/missing", "open missing: "},
		{exists, []error{fs.ErrExist, AlreadyExists, syscall.EEXIST}, "/file", ""},
		{notEmpty, []error{NotEmpty, syscall.ENOTEMPTY}, "", ""},
		{isDirectory, []error{IsADirectory, syscall.EISDIR}, "", ""},
		{isFile, []error{NotADirectory, syscall.ENOTDIR}, "/file/x", ""},
		{invalid, []error{fs.ErrInvalid, InvalidArgument, syscall.EINVAL}, "/../x", ""},
	} {
		var failure *Error
		if !errors.As(expected.err, &failure) {
			t.Errorf("%v isn't an Error", expected.err)
			continue
		}
		for _, is := range expected.is {
			if !errors.Is(expected.err, is) {
				t.Errorf("%v isn't %v", expected.err, is)
			}
		}
		if errors.Is(expected.err, Busy) || errors.Is(expected.err, os.ErrDeadlineExceeded) {
			t.Errorf("%v is anything", expected.err)
		}
		if failure.Path != directory+expected.path {
			t.Errorf("%v names %q", expected.err, failure.Path)
		}
		if text := expected.err.Error(); text[:len(expected.prefix)] != expected.prefix {
			t.Errorf("%s begins otherwise", text)
		}
	}
	ok(t, client.Close())
	if _, err := client.Stat(ctx, directory); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	client = dialTest(t, sharedGateway(t).address, nil)
}
