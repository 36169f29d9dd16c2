package strait

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// A Kind says what went wrong. Its values and names are those of ErrorCode in idl/dfs.thrift, the
// same in every client language. A Kind is an error, so that errors.Is(err, strait.Busy) works.
type Kind int

const (
	// Canceled: the caller's context was canceled. Only clients have this kind.
	Canceled Kind = iota
	// NotFound: no file or directory at the path. It is fs.ErrNotExist.
	NotFound
	// AlreadyExists: the path is taken, and the operation may not replace it. It is fs.ErrExist.
	AlreadyExists
	// NotADirectory: a directory was needed; the path (or a parent of it) is a file.
	NotADirectory
	// IsADirectory: a file was needed; the path is a directory.
	IsADirectory
	// NotEmpty: the directory still has entries.
	NotEmpty
	// PermissionDenied: the user may not do this. It is fs.ErrPermission.
	PermissionDenied
	// Unauthenticated: the client isn't logged in, or the credentials are wrong.
	Unauthenticated
	// InvalidArgument: path, offset, length or the state of a file are wrong. It is fs.ErrInvalid.
	InvalidArgument
	// Unsupported: the store has no such operation. It is errors.ErrUnsupported.
	Unsupported
	// Busy: another client holds a needed resource, or a limit is reached; try later.
	Busy
	// NoSpace: the store, or the user's quota, is full.
	NoSpace
	// TimedOut: no answer within the time allowed. It is os.ErrDeadlineExceeded.
	TimedOut
	// Unavailable: the gateway or the store can't be reached.
	Unavailable
	// Corrupt: stored bytes don't match their checksum, on every replica.
	Corrupt
	// OutcomeUnknown: a change was sent, and may or may not have been executed.
	OutcomeUnknown
	// Internal: a defect, or an answer that makes no sense.
	Internal
)

// errorTable is the table of crates/store/src/error.rs: of each kind its name, errno, and whether
// the same request may be repeated. `is` are the standard library's names for it.
var errorTable = [...]struct {
	name      string
	errno     syscall.Errno
	retrySafe bool
	is        []error
}{
	Canceled:         {"Canceled", syscall.ECANCELED, false, nil},
	NotFound:         {"NotFound", syscall.ENOENT, false, []error{fs.ErrNotExist}},
	AlreadyExists:    {"AlreadyExists", syscall.EEXIST, false, []error{fs.ErrExist}},
	NotADirectory:    {"NotADirectory", syscall.ENOTDIR, false, nil},
	IsADirectory:     {"IsADirectory", syscall.EISDIR, false, nil},
	NotEmpty:         {"NotEmpty", syscall.ENOTEMPTY, false, []error{fs.ErrExist}},
	PermissionDenied: {"PermissionDenied", syscall.EACCES, false, []error{fs.ErrPermission}},
	Unauthenticated:  {"Unauthenticated", enokey, false, []error{fs.ErrPermission}},
	InvalidArgument:  {"InvalidArgument", syscall.EINVAL, false, []error{fs.ErrInvalid}},
	Unsupported:      {"Unsupported", syscall.EOPNOTSUPP, false, []error{errors.ErrUnsupported}},
	Busy:             {"Busy", syscall.EBUSY, true, nil},
	NoSpace:          {"NoSpace", syscall.ENOSPC, false, nil},
	TimedOut:         {"TimedOut", syscall.ETIMEDOUT, true, []error{os.ErrDeadlineExceeded}},
	Unavailable:      {"Unavailable", syscall.EHOSTUNREACH, true, nil},
	Corrupt:          {"Corrupt", syscall.EBADMSG, false, nil},
	OutcomeUnknown:   {"OutcomeUnknown", syscall.ECONNABORTED, false, nil},
	Internal:         {"Internal", syscall.EIO, false, nil},
}

// enokey is Linux's number; other systems have none for a missing key.
const enokey = syscall.Errno(126)

func (k Kind) String() string {
	if k < 0 || int(k) >= len(errorTable) {
		return fmt.Sprintf("Kind(%d)", int(k))
	}
	return errorTable[k].name
}

func (k Kind) Error() string { return k.String() }

// An Error is a failed operation.
type Error struct {
	// Kind is Internal for a kind that this version doesn't know; see Name.
	Kind Kind
	// Name is the kind's name as the gateway spells it.
	Name string
	// Message is the cause, for people, without the path.
	Message string
	// Path is the path that the operation failed on; empty if unknown.
	Path string
	// RetrySafe says whether repeating the same request may help and can do no harm.
	RetrySafe bool

	cause error
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Message
	}
	return e.Path + ": " + e.Message
}

// Unwrap returns the context's error, if that ended the operation.
func (e *Error) Unwrap() error { return e.cause }

// Is matches the Kind, the errno, and the standard library's error for it.
func (e *Error) Is(target error) bool {
	row := errorTable[e.Kind]
	switch target := target.(type) {
	case Kind:
		return target == e.Kind
	case syscall.Errno:
		return target == row.errno
	}
	for _, known := range row.is {
		if target == known {
			return true
		}
	}
	return false
}

// Timeout makes it a timeout as package net knows them.
func (e *Error) Timeout() bool { return e.Kind == TimedOut }

func newError(kind Kind, message, path string) *Error {
	row := errorTable[kind]
	return &Error{Kind: kind, Name: row.name, Message: message, Path: path, RetrySafe: row.retrySafe}
}

// reported is the error that a gateway sent.
func reported(from *wire.DfsError, path string) *Error {
	kind := Kind(from.Code)
	if kind < NotFound || kind > Internal {
		kind = Internal
	}
	failure := newError(kind, from.Message, path)
	if from.Kind != "" {
		failure.Name = from.Kind
	}
	if from.Path != "" {
		failure.Path = from.Path
	}
	if from.RetrySafe != nil {
		failure.RetrySafe = *from.RetrySafe
	}
	return failure
}

// refused is Thrift's own error.
func refused(from *wire.Refusal, method, path string) *Error {
	kind := Internal
	if from.Type == wire.UnknownMethod {
		kind = Unsupported
	}
	return newError(kind, method+": "+from.Message, path)
}

func noAnswer(method, gateway string, timeout time.Duration) *Error {
	return newError(TimedOut, fmt.Sprintf("%s: no complete answer from %s within %d ms; the gateway may be "+
		"overloaded or gone: look at it, or allow a longer timeout",
		method, gateway, timeout.Milliseconds()), "")
}

// ended is the error of an operation at a gateway whose context ended, with this cause.
func ended(cause error, method, gateway, path string) *Error {
	kind := Canceled
	if errors.Is(cause, context.DeadlineExceeded) {
		kind = TimedOut
	}
	failure := newError(kind, method+" at "+gateway+": "+cause.Error(), path)
	failure.cause = cause
	return failure
}

func closedError(what, path string) *Error {
	failure := newError(InvalidArgument, what+" is closed", path)
	failure.cause = fs.ErrClosed
	return failure
}

// kindOf returns the kind of a gateway's error, or -1.
func kindOf(err error) Kind {
	var failure *Error
	if errors.As(err, &failure) {
		return failure.Kind
	}
	return -1
}

// lostError says that the connection broke. `sent`: a request may have arrived. `tls`: TLS is the
// cause, such as a certificate that the gateway rejects. `unanswered`: the connection had never
// brought an answer.
type lostError struct {
	reason                string
	sent, tls, unanswered bool
}

func (e *lostError) Error() string { return e.reason }
