package strait

import (
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// An FS is a directory of a store as an io/fs.FS. Its names are relative to it, as that package
// wants: "logs/a", and "." for itself. Errors are *fs.PathError around an *Error.
type FS struct {
	ctx    context.Context
	client *Client
	root   string
}

var _ interface {
	fs.ReadDirFS
	fs.StatFS
	fs.ReadFileFS
	fs.SubFS
} = (*FS)(nil)

// FS returns the tree below a directory, "/" for the whole store.
func (c *Client) FS(root string) *FS {
	return &FS{context.Background(), c, path.Join("/", root)}
}

// WithContext returns the same tree with a context that bounds all calls, and files as long as they
// are open: the interfaces of io/fs have no place for one.
func (f *FS) WithContext(ctx context.Context) *FS { return &FS{ctx, f.client, f.root} }

func (f *FS) resolve(operation, name string) (string, error) {
	if !fs.ValidPath(name) || strings.ContainsRune(name, 0) {
		return "", &fs.PathError{Op: operation, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(f.root, name), nil
}

func pathError(operation, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: operation, Path: name, Err: err}
}

// Open opens a file or a directory. A file is a *Reader too: an io.ReaderAt and io.Seeker.
func (f *FS) Open(name string) (fs.File, error) {
	full, err := f.resolve("open", name)
	if err != nil {
		return nil, err
	}
	info, err := f.client.Stat(f.ctx, full)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	named := named(info, name)
	if info.Directory {
		return &directory{fsys: f, name: name, info: named}, nil
	}
	reader, err := f.client.Open(f.ctx, full)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return &file{reader, named}, nil
}

// Stat returns a *FileInfo.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	full, err := f.resolve("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := f.client.Stat(f.ctx, full)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return named(info, name), nil
}

// ReadDir returns the entries of a directory, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := f.resolve("readdir", name)
	if err != nil {
		return nil, err
	}
	var entries []fs.DirEntry
	for info, err := range f.client.List(f.ctx, full, 0) {
		if err != nil {
			return entries, pathError("readdir", name, err)
		}
		// The protocol lists a file as itself.
		if info.Path == full && !info.Directory {
			return nil, pathError("readdir", name, newError(NotADirectory, "only directories have entries", full))
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// ReadFile reads a whole file.
func (f *FS) ReadFile(name string) ([]byte, error) {
	full, err := f.resolve("open", name)
	if err != nil {
		return nil, err
	}
	data, err := f.client.ReadFile(f.ctx, full)
	return data, pathError("read", name, err)
}

// Sub returns the tree below one of its directories.
func (f *FS) Sub(name string) (fs.FS, error) {
	full, err := f.resolve("sub", name)
	if err != nil {
		return nil, err
	}
	return &FS{f.ctx, f.client, full}, nil
}

// named gives the top of a tree its name there, ".".
func named(info *FileInfo, name string) *FileInfo {
	if name != "." {
		return info
	}
	top := *info
	top.Path = "."
	return &top
}

// believedBytes is allocated by a file's claimed length; beyond it, as much again as has come.
const believedBytes = 64 << 20

// ReadFile reads a whole file.
func (c *Client) ReadFile(ctx context.Context, path string) ([]byte, error) {
	reader, err := openReader(ctx, c.session, path, maxWindow)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }()
	reader.sequentialFrom = 0 // the whole file is wanted
	// One byte more, so that the read which finds the end needs no more memory.
	data := make([]byte, 0, min(reader.Size(), believedBytes)+1)
	for {
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
		count, err := reader.Read(data[len(data):cap(data)])
		data = data[:len(data)+count]
		if err == io.EOF {
			return data, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// file is an open file of an FS.
type file struct {
	*Reader
	info *FileInfo
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }

// directory is an open directory of an FS.
type directory struct {
	fsys    *FS
	name    string
	info    *FileInfo
	entries []fs.DirEntry
	isRead  bool
}

var _ fs.ReadDirFile = (*directory)(nil)

func (d *directory) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *directory) Close() error               { return nil }

func (d *directory) Read([]byte) (int, error) {
	return 0, pathError("read", d.name, newError(IsADirectory, "a directory", d.name))
}

// ReadDir returns the next entries, all that are left if count isn't positive.
func (d *directory) ReadDir(count int) ([]fs.DirEntry, error) {
	if !d.isRead {
		entries, err := d.fsys.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.entries, d.isRead = entries, true
	}
	if count <= 0 {
		count = len(d.entries)
	} else if len(d.entries) == 0 {
		return nil, io.EOF
	}
	count = min(count, len(d.entries))
	next := d.entries[:count:count]
	d.entries = d.entries[count:]
	return next, nil
}
