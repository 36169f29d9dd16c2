package strait

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

const (
	// copyBytes is read from a local file at once.
	copyBytes = 1 << 20
	// permissionBits that a copy can get: a set-id bit belongs only to the original.
	permissionBits = 0o777
)

// Get copies a remote file to a local one, which appears only when it is complete, and returns the
// number of bytes. An existing file is AlreadyExists, or replaced if `overwrite`. A failed Get
// tries to remove its temporary file.
func (c *Client) Get(ctx context.Context, remote, local string, overwrite bool) (int64, error) {
	info, err := c.Stat(ctx, remote)
	if err != nil {
		return 0, err
	}
	reader, err := openReader(ctx, c.session, remote, maxWindow)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reader.Close() }()
	if there, err := os.Stat(local); err == nil && !there.Mode().IsRegular() && !there.IsDir() {
		return toDevice(reader, local)
	}
	if _, err := os.Lstat(local); err == nil && !overwrite {
		return 0, newError(AlreadyExists, "the file is there already", local)
	}
	permission := fs.FileMode(0o666)
	if info.hasPermission {
		permission = fs.FileMode(info.Permission & permissionBits)
	}
	temporary := filepath.Join(filepath.Dir(local), temporaryName(".strait-get-"))
	// The system applies the umask, so that a copy never allows more than new files.
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, permission)
	if err != nil {
		return 0, namedBy(local, err)
	}
	copied, err := copyWhole(reader, file)
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = appear(temporary, local, overwrite)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return 0, namedBy(local, err)
	}
	return copied, nil
}

// namedBy names the target in an error of its temporary file, whose name nobody knows.
func namedBy(local string, err error) error {
	var ofPath *fs.PathError
	if errors.As(err, &ofPath) {
		return &fs.PathError{Op: ofPath.Op, Path: local, Err: ofPath.Err}
	}
	var ofLink *os.LinkError
	if errors.As(err, &ofLink) {
		return &fs.PathError{Op: ofLink.Op, Path: local, Err: ofLink.Err}
	}
	return err
}

// toDevice copies to a device or pipe, which receives the bytes directly.
func toDevice(reader *Reader, local string) (int64, error) {
	file, err := os.OpenFile(local, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	copied, err := copyWhole(reader, file)
	if closing := file.Close(); err == nil {
		err = closing
	}
	return copied, err
}

// copyWhole copies a file, and fails if fewer bytes come than it had when it was opened.
func copyWhole(reader *Reader, to io.Writer) (int64, error) {
	size := reader.Size()
	copied, err := reader.WriteTo(to)
	if err == nil && copied < size {
		err = newError(Busy, "the file became shorter while it was read", reader.path)
	}
	return copied, err
}

// appear gives a complete file its name.
func appear(temporary, local string, overwrite bool) error {
	if overwrite {
		return os.Rename(temporary, local)
	}
	// A rename replaces an existing file, a link doesn't.
	err := os.Link(temporary, local)
	if err == nil {
		return os.Remove(temporary)
	}
	if errors.Is(err, fs.ErrExist) {
		return newError(AlreadyExists, "the file is there already", local)
	}
	// On a file system without links, only another check is possible.
	if _, err := os.Lstat(local); err == nil {
		return newError(AlreadyExists, "the file is there already", local)
	}
	return os.Rename(temporary, local)
}

// Put copies a local file to a remote one, or into a remote directory under its own name, and
// returns the number of bytes. The remote file appears only when it is complete and closed. If it
// exists already, Put replaces it with `overwrite`, and otherwise fails as AlreadyExists. (In a
// store without `rename_replace`, Put removes the existing file first.) A failed Put tries to
// remove its temporary file. After OutcomeUnknown or TimedOut, the remote file may be there,
// complete.
func (c *Client) Put(ctx context.Context, local, remote string, overwrite bool) (int64, error) {
	file, err := os.Open(local)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	target, err := c.target(ctx, local, remote, overwrite)
	if err != nil {
		return 0, err
	}
	temporary := path.Join(path.Dir(target), temporaryName(".strait-put-"))
	copied, written, err := c.fill(ctx, file, temporary, info.Mode().Perm()&^umask())
	if err == nil {
		err = c.appear(ctx, temporary, target, overwrite)
	}
	if err == nil {
		return copied, nil
	}
	c.removeQuietly(temporary)
	var failure *Error
	if !errors.As(err, &failure) {
		return 0, err
	}
	if !written && failure.Kind == OutcomeUnknown {
		// In any outcome, no part of it is visible under the target's name.
		return 0, newError(Unavailable, failure.Message, target)
	}
	if failure.Path == temporary && failure.Kind != Internal {
		failure.Path = target // the caller doesn't know the temporary name
	}
	return 0, failure
}

// target is the path that the local file gets, and which is free or may be replaced.
func (c *Client) target(ctx context.Context, local, remote string, overwrite bool) (string, error) {
	info, err := c.Stat(ctx, remote)
	if err == nil && info.Directory {
		remote = path.Join(remote, filepath.Base(local))
		info, err = c.Stat(ctx, remote)
	}
	switch {
	case kindOf(err) == NotFound:
		return remote, nil
	case err != nil:
		return "", err
	case !overwrite:
		return "", newError(AlreadyExists, "the path is taken", remote)
	case info.Directory:
		return "", newError(IsADirectory, "the target is a directory", remote)
	}
	return remote, nil
}

// fill writes a temporary file; it says whether the file was closed.
func (c *Client) fill(
	ctx context.Context, from io.Reader, temporary string, permission fs.FileMode,
) (copied int64, written bool, err error) {
	mode := uint32(permission)
	writer, err := c.Create(ctx, temporary, &CreateOptions{Permission: &mode})
	if err != nil {
		return 0, false, err
	}
	defer writer.Abandon()
	copied, err = io.CopyBuffer(writer, struct{ io.Reader }{from}, make([]byte, copyBytes))
	if err == nil {
		err = writer.Close()
	}
	return copied, err == nil, err
}

func (c *Client) appear(ctx context.Context, temporary, target string, overwrite bool) error {
	if !overwrite || c.Store().Can("rename_replace") {
		return c.Rename(ctx, temporary, target, overwrite)
	}
	if err := c.Remove(ctx, target); err != nil && kindOf(err) != NotFound {
		return err
	}
	return c.Rename(ctx, temporary, target, false)
}

// removeQuietly removes a temporary file; the earlier error is the one to report.
func (c *Client) removeQuietly(temporary string) {
	ctx, cancel := c.session.parting()
	defer cancel()
	_, _ = mutate(ctx, c.session, wire.RemovePath, temporary, &wire.RemovePathRequest{Path: temporary})
}

// temporaryName doesn't contain the target's name, which may already have the maximum length.
func temporaryName(prefix string) string {
	return prefix + hex.EncodeToString(newRequestID())[:16]
}

// umask of this process.
func umask() fs.FileMode {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if digits, ok := strings.CutPrefix(line, "Umask:"); ok {
				return octal(strings.TrimSpace(digits))
			}
		}
	}
	return 0o022 // where the system doesn't tell: the usual one
}

func octal(digits string) fs.FileMode {
	var mode fs.FileMode
	for _, digit := range digits {
		mode = mode<<3 | fs.FileMode(digit-'0')
	}
	return mode
}
