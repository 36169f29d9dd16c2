// Package strait reads and writes files of any store behind a Strait gateway.
//
// A Client is a session with a gateway, for any number of goroutines. Its FS is an io/fs.FS; a
// Reader is an io.Reader, io.ReaderAt and io.Seeker, a Writer an io.Writer. Each call takes a
// context, whose deadline and cancellation bound it beside Options.Timeout. Errors are *Error.
package strait

import (
	"context"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// A Client is a session with a gateway, for any number of goroutines.
type Client struct {
	session *session
}

// Dial connects to a gateway (strait://host:port/@store, or host:port) and logs in, without
// retries. Options may be nil.
func Dial(ctx context.Context, address string, options *Options) (*Client, error) {
	endpoint, err := newEndpoint(address, options)
	if err != nil {
		return nil, err
	}
	session, err := newSession(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return &Client{session}, nil
}

// Close ends the session, unless it was given as a token; close its files first.
func (c *Client) Close() error { return c.session.close() }

// -- The session

// User is the user that the gateway acts for.
func (c *Client) User() string {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.session.user
}

// Token represents the login until it expires; keep it secret.
func (c *Client) Token() string {
	token, _ := c.session.current()
	return token
}

// Store is the store of this session.
func (c *Client) Store() StoreInfo {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.session.store
}

// ServerInfo returns the gateway's version, and the stores it serves.
func (c *Client) ServerInfo(ctx context.Context) (ServerInfo, error) {
	reply, err := call(ctx, c.session, wire.ServerInfo, "", &wire.ServerInfoRequest{})
	if err != nil {
		return ServerInfo{}, err
	}
	info := ServerInfo{Server: reply.Server, ProtocolVersion: int(reply.Version)}
	for n := range reply.Stores {
		info.Stores = append(info.Stores, storeInfo(&reply.Stores[n]))
	}
	return info, nil
}

// Status returns capacity and use of the whole store.
func (c *Client) Status(ctx context.Context) (StoreStatus, error) {
	reply, err := call(ctx, c.session, wire.GetStoreStatus, "", &wire.GetStoreStatusRequest{})
	if err != nil {
		return StoreStatus{}, err
	}
	return StoreStatus{reply.Capacity, reply.Used, reply.Remaining, reply.Settling}, nil
}

// -- Looking

// Stat returns the store's record of a path.
func (c *Client) Stat(ctx context.Context, path string) (*FileInfo, error) {
	reply, err := call(ctx, c.session, wire.GetFileInfo, path, &wire.GetFileInfoRequest{Path: path})
	if err != nil {
		return nil, err
	}
	return fileInfo(&reply.Info), nil
}

// Exists says whether there is a file or directory at the path.
func (c *Client) Exists(ctx context.Context, path string) (bool, error) {
	_, err := c.Stat(ctx, path)
	switch kindOf(err) {
	case NotFound, NotADirectory:
		return false, nil
	}
	return err == nil, err
}

// List lists a directory page by page, in no order; a file is listed as itself. An error ends it. `pageSize` entries are
// fetched at once; 0: the gateway's own number.
func (c *Client) List(ctx context.Context, path string, pageSize int) iter.Seq2[*FileInfo, error] {
	return func(yield func(*FileInfo, error) bool) {
		pages := &pages{session: c.session, path: path, size: pageSize}
		pages.incarnation = c.session.currentIncarnation()
		defer pages.close()
		for !pages.isLast {
			entries, err := pages.next(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			for n := range entries {
				if !yield(fileInfo(&entries[n]), nil) {
					return
				}
			}
		}
	}
}

// Locate returns the blocks of a range of a file, and their hosts; to its end if length is
// negative.
func (c *Client) Locate(ctx context.Context, path string, offset, length int64) ([]Block, error) {
	request := &wire.GetBlockLocationsRequest{Path: path, Offset: offset}
	if length >= 0 {
		request.Length = &length
	}
	reply, err := call(ctx, c.session, wire.GetBlockLocations, path, request)
	if err != nil {
		return nil, err
	}
	blocks := make([]Block, len(reply.Blocks))
	for n, block := range reply.Blocks {
		blocks[n] = Block(block)
	}
	return blocks, nil
}

// Checksum returns the store's own checksum of a file.
func (c *Client) Checksum(ctx context.Context, path string) (Checksum, error) {
	reply, err := call(ctx, c.session, wire.GetChecksum, path, &wire.GetChecksumRequest{Path: path})
	if err != nil {
		return Checksum{}, err
	}
	return Checksum{reply.Algorithm, string(reply.Value)}, nil
}

// -- Files

// Open opens a file to read. The context bounds it as long as it is open.
func (c *Client) Open(ctx context.Context, path string) (*Reader, error) {
	return openReader(ctx, c.session, path, 1)
}

// Create makes a file, and its missing parents. Options may be nil. The context bounds the file as
// long as it is open.
func (c *Client) Create(ctx context.Context, path string, options *CreateOptions) (*Writer, error) {
	if options == nil {
		options = &CreateOptions{}
	}
	reply, err := mutate(ctx, c.session, wire.CreateFile, path, &wire.CreateFileRequest{
		Path:        path,
		Overwrite:   options.Overwrite,
		Permission:  bits(options.Permission),
		Replication: options.Replication,
		BlockSize:   options.BlockSize,
		MinReplicas: options.MinReplicas,
	})
	if err != nil {
		return nil, err
	}
	return newWriter(ctx, c.session, path, reply)
}

// Append opens a file to append at its end. The context bounds it as long as it is open.
func (c *Client) Append(ctx context.Context, path string) (*Writer, error) {
	reply, err := mutate(ctx, c.session, wire.AppendFile, path, &wire.AppendFileRequest{Path: path})
	if err != nil {
		return nil, err
	}
	return newWriter(ctx, c.session, path, reply)
}

// -- Changes

// Mkdirs makes a directory and its missing parents; an existing directory is success. Permission
// may be nil.
func (c *Client) Mkdirs(ctx context.Context, path string, permission *uint32) error {
	_, err := mutate(ctx, c.session, wire.MakeDirectories, path,
		&wire.MakeDirectoriesRequest{Path: path, Permission: bits(permission)})
	return err
}

// Rename gives a file or directory another name. The target is the new name itself, never a
// directory to move into; with `replace`, an existing file gives way.
func (c *Client) Rename(ctx context.Context, source, target string, replace bool) error {
	_, err := mutate(ctx, c.session, wire.RenamePath, source,
		&wire.RenamePathRequest{Source: source, Target: target, Replace: replace})
	return err
}

// Remove removes a file or an empty directory.
func (c *Client) Remove(ctx context.Context, path string) error { return c.remove(ctx, path, false) }

// RemoveAll removes a file, or a directory with all in it. A missing path is NotFound.
func (c *Client) RemoveAll(ctx context.Context, path string) error {
	return c.remove(ctx, path, true)
}

func (c *Client) remove(ctx context.Context, path string, recursive bool) error {
	_, err := mutate(ctx, c.session, wire.RemovePath, path,
		&wire.RemovePathRequest{Path: path, Recursive: recursive})
	return err
}

// SetAttributes changes the attributes that aren't nil.
func (c *Client) SetAttributes(ctx context.Context, path string, attributes Attributes) error {
	_, err := mutate(ctx, c.session, wire.SetAttributes, path, &wire.SetAttributesRequest{
		Path:        path,
		Permission:  bits(attributes.Permission),
		Owner:       attributes.Owner,
		Group:       attributes.Group,
		ModifiedMs:  toMs(attributes.Modified),
		AccessedMs:  toMs(attributes.Accessed),
		Replication: attributes.Replication,
	})
	return err
}

// Truncate cuts a closed file to this many bytes.
func (c *Client) Truncate(ctx context.Context, path string, length int64) error {
	_, err := mutate(ctx, c.session, wire.TruncateFile, path,
		&wire.TruncateFileRequest{Path: path, Length: length})
	return err
}

// Concat moves the bytes of sources, in order, to the end of the closed file at path, and removes the
// sources, in one step and without copying. Needs the capability "concat".
func (c *Client) Concat(ctx context.Context, path string, sources ...string) error {
	_, err := mutate(ctx, c.session, wire.ConcatFiles, path,
		&wire.ConcatFilesRequest{Path: path, Sources: sources})
	return err
}

// pages of a listing.
type pages struct {
	session     *session
	path        string
	size        int
	incarnation int64 // the session's before the listing began
	cursor      *int64
	isLast      bool
}

func (p *pages) next(ctx context.Context) ([]wire.FileInfo, error) {
	request := &wire.ListDirectoryRequest{Path: p.path, Cursor: p.cursor, MaxEntries: int32(p.size)}
	var reply *wire.ListDirectoryReply
	var err error
	if p.cursor == nil {
		reply, err = call(ctx, p.session, wire.ListDirectory, p.path, request)
	} else {
		// A cursor is good for one page.
		reply, err = callOnce(ctx, p.session, wire.ListDirectory, p.path, request)
	}
	if kindOf(err) == InvalidArgument && p.cursor != nil &&
		p.session.currentIncarnation() != p.incarnation {
		// Another gateway answered: an unknown cursor isn't the caller's mistake.
		p.isLast = true
		return nil, newError(Unavailable,
			"the gateway's session ended in the middle of the listing; list anew", p.path)
	}
	if err != nil {
		return nil, atPath(err, p.path)
	}
	p.cursor = reply.Cursor
	p.isLast = p.cursor == nil
	if len(reply.Entries) == 0 && !p.isLast {
		return nil, newError(Internal,
			"list: the gateway sent an empty page that isn't the last (a defect of the gateway)", p.path)
	}
	return reply.Entries, checkEntries(p.path, reply.Entries)
}

// checkEntries refuses entries that aren't in the listed directory: their names could lead a program out of it. A file
// is listed as itself.
func checkEntries(listed string, entries []wire.FileInfo) error {
	clean := path.Clean(listed)
	directory := strings.TrimSuffix(clean, "/") + "/"
	for n := range entries {
		entry := &entries[n]
		name, isBelow := strings.CutPrefix(entry.Path, directory)
		isName := isBelow && name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
		isItself := entry.Path == clean && entry.Type != wire.FileTypeDirectory
		if !isName && !isItself {
			return newError(Internal,
				fmt.Sprintf("list: the gateway named %q, which isn't in this directory", entry.Path), listed)
		}
	}
	return nil
}

// close frees a listing that is left before its end.
func (p *pages) close() {
	if !p.isLast && p.cursor != nil {
		p.session.release(*p.cursor, false)
	}
}
