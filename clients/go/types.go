package strait

import (
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// FileInfo is a store's record of one path. It is an fs.FileInfo.
type FileInfo struct {
	Path string
	// Directory is false for a file.
	Directory bool
	// Length in bytes; 0 for a directory.
	Length int64
	// BlockSize in bytes; 0 for a directory.
	BlockSize int64
	// Replication is the number of requested replicas; 0 for a directory.
	Replication int
	// Modified and Accessed; zero if not kept.
	Modified, Accessed time.Time
	// Permission bits, 07777 at most.
	Permission   uint32
	Owner, Group string
	// Link says that the last name of the path is a symbolic link; all else is of what it leads to.
	// Only listings tell.
	Link bool

	hasPermission bool
}

var _ fs.FileInfo = (*FileInfo)(nil)

// Name is the last component of the path.
func (f *FileInfo) Name() string { return path.Base(f.Path) }

// Size is Length.
func (f *FileInfo) Size() int64 { return f.Length }

// ModTime is Modified.
func (f *FileInfo) ModTime() time.Time { return f.Modified }

// IsDir is Directory.
func (f *FileInfo) IsDir() bool { return f.Directory }

// Sys returns nothing; all there is, is in the FileInfo.
func (f *FileInfo) Sys() any { return nil }

// Mode has the permission bits and the type.
func (f *FileInfo) Mode() fs.FileMode {
	mode := fs.FileMode(f.Permission & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{
		0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky,
	} {
		if f.Permission&bit != 0 {
			mode |= flag
		}
	}
	if f.Directory {
		mode |= fs.ModeDir
	}
	return mode
}

// Block is one block of a file and its location.
type Block struct {
	// Offset of its first byte in the file, and its Length in bytes.
	Offset, Length int64
	// Hosts, nearest first if the store sorts them.
	Hosts []string
	// Addresses are host:port of the data service on each host; may be empty.
	Addresses []string
	// Corrupt: the store knows no good replica.
	Corrupt bool
}

// Checksum is a store's own checksum of a file; it compares only under the same algorithm.
type Checksum struct {
	Algorithm string
	// Value is bytes.
	Value string
}

// StoreInfo is one of a gateway's stores.
type StoreInfo struct {
	Name, URI string
	// Capabilities by the names in the documentation of capabilities.
	Capabilities []string
	// Recovery: an abandoned file is writable again after this time at the latest.
	Recovery time.Duration
}

// Can says whether the store has a capability.
func (s StoreInfo) Can(capability string) bool { return slices.Contains(s.Capabilities, capability) }

// StoreStatus has the bytes of a whole store.
type StoreStatus struct {
	Capacity, Used, Remaining int64
	// Settling: the store has just started, and doesn't know the location of all bytes yet. Blocks
	// without hosts may still exist.
	Settling bool
}

// ServerInfo is a gateway's version, and the stores it serves.
type ServerInfo struct {
	// Server is the program and its version, for people.
	Server          string
	ProtocolVersion int
	Stores          []StoreInfo
}

// CreateOptions are options for a new file; the store decides about those that are nil.
type CreateOptions struct {
	// Overwrite replaces an existing file, which is otherwise AlreadyExists.
	Overwrite   bool
	Permission  *uint32
	Replication *int16
	// BlockSize in bytes.
	BlockSize *int64
	// MinReplicas on disk that make the file's bytes durable: Sync and Close fail with fewer.
	MinReplicas *int16
}

// Attributes to change; those that are nil stay.
type Attributes struct {
	Permission   *uint32
	Owner, Group *string
	// Times have a resolution of a millisecond.
	Modified, Accessed *time.Time
	Replication        *int16
}

func fileInfo(from *wire.FileInfo) *FileInfo {
	info := &FileInfo{
		Path:        from.Path,
		Directory:   from.Type == wire.FileTypeDirectory,
		Length:      from.Length,
		BlockSize:   from.BlockSize,
		Replication: int(from.Replication),
		Modified:    fromMs(from.ModifiedMs),
		Accessed:    fromMs(from.AccessedMs),
		Owner:       from.Owner,
		Group:       from.Group,
		Link:        from.Link,
	}
	if from.Permission != nil {
		info.Permission, info.hasPermission = uint32(*from.Permission), true
	}
	return info
}

func fromMs(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func toMs(at *time.Time) *int64 {
	if at == nil {
		return nil
	}
	ms := at.UnixMilli()
	return &ms
}

func bits(permission *uint32) *int32 {
	if permission == nil {
		return nil
	}
	signed := int32(*permission)
	return &signed
}

func storeInfo(from *wire.StoreInfo) StoreInfo {
	return StoreInfo{
		Name:         from.Name,
		URI:          from.URI,
		Capabilities: from.Capabilities,
		Recovery:     time.Duration(from.RecoveryMs) * time.Millisecond,
	}
}
