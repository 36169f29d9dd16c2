// Package wire holds the messages of idl/dfs.thrift, and their bytes on Thrift's wires.
//
// It has a codec of its own: the code that Thrift's compiler (0.17) writes for the interface has
// 24,828 lines, and its runtime copies each payload. TestMessagesAreThoseOfTheIDL holds the
// structs below against the IDL.
package wire

import (
	"math"
	"time"
)

// Each field's tag has its id and name in the IDL. A pointer, and a field with "omitempty" that is
// zero, isn't sent when it is absent.

// Version is the version of the protocol that this client speaks.
const Version = 1

// FileTypeDirectory is FileType.DIRECTORY.
const FileTypeDirectory = 2

// Values of FlushMode.
const (
	Flush int32 = 1
	Sync  int32 = 2
)

type DfsError struct {
	Code      int32  `thrift:"1,code"`
	Kind      string `thrift:"2,kind"`
	Message   string `thrift:"3,message"`
	Path      string `thrift:"4,path"`
	RetrySafe *bool  `thrift:"5,retry_safe"`
}

type FileInfo struct {
	Path        string `thrift:"1,path"`
	Type        int32  `thrift:"2,type"`
	Length      int64  `thrift:"3,length"`
	BlockSize   int64  `thrift:"4,block_size"`
	Replication int16  `thrift:"5,replication"`
	ModifiedMs  int64  `thrift:"6,modified_ms"`
	AccessedMs  int64  `thrift:"7,accessed_ms"`
	Permission  *int32 `thrift:"8,permission"`
	Owner       string `thrift:"9,owner"`
	Group       string `thrift:"10,group"`
	Link        bool   `thrift:"11,link"`
}

type BlockLocation struct {
	Offset    int64    `thrift:"1,offset"`
	Length    int64    `thrift:"2,length"`
	Hosts     []string `thrift:"3,hosts"`
	Addresses []string `thrift:"4,addresses"`
	Corrupt   bool     `thrift:"5,corrupt"`
}

type Limits struct {
	MaxChunkBytes        *int32 `thrift:"1,max_chunk_bytes"`
	MaxMessageBytes      int32  `thrift:"2,max_message_bytes"`
	MaxPathBytes         int32  `thrift:"3,max_path_bytes"`
	MaxListPage          int32  `thrift:"4,max_list_page"`
	MaxHandlesPerSession int32  `thrift:"5,max_handles_per_session"`
	SessionIdleMs        int64  `thrift:"6,session_idle_ms"`
}

type StoreInfo struct {
	Name         string   `thrift:"1,name"`
	URI          string   `thrift:"2,uri"`
	Capabilities []string `thrift:"3,capabilities"`
	RecoveryMs   int32    `thrift:"4,recovery_ms"`
}

type ServerInfoRequest struct {
	Timed
}

type ServerInfoReply struct {
	Version int32       `thrift:"1,version"`
	Server  string      `thrift:"2,server"`
	Stores  []StoreInfo `thrift:"3,stores"`
	Limits  Limits      `thrift:"4,limits"`
}

type OpenSessionRequest struct {
	Timed
	Version  int32  `thrift:"1,version"`
	Store    string `thrift:"2,store,omitempty"`
	User     string `thrift:"3,user,omitempty"`
	Password string `thrift:"4,password,omitempty"`
	Token    string `thrift:"5,token,omitempty"`
	LendMs   int64  `thrift:"6,lend_ms,omitempty"`
	Lent     string `thrift:"7,lent,omitempty"`
}

type OpenSessionReply struct {
	Token       string    `thrift:"1,token"`
	ExpiresMs   int64     `thrift:"2,expires_ms"`
	User        string    `thrift:"3,user"`
	Store       StoreInfo `thrift:"4,store"`
	Version     int32     `thrift:"5,version"`
	Limits      Limits    `thrift:"6,limits"`
	Incarnation int64     `thrift:"7,incarnation"`
}

type CloseSessionRequest struct {
	Timed
	Session string `thrift:"1,session,omitempty"`
}

type CloseSessionReply struct{}

type GetFileInfoRequest struct {
	Timed
	Session string `thrift:"1,session,omitempty"`
	Path    string `thrift:"2,path"`
}

type GetFileInfoReply struct {
	Info FileInfo `thrift:"1,info"`
}

type ListDirectoryRequest struct {
	Timed
	Session    string `thrift:"1,session,omitempty"`
	Path       string `thrift:"2,path"`
	Cursor     *int64 `thrift:"3,cursor"`
	MaxEntries int32  `thrift:"4,max_entries,omitempty"`
}

type ListDirectoryReply struct {
	Entries []FileInfo `thrift:"1,entries"`
	Cursor  *int64     `thrift:"2,cursor"`
}

type OpenFileRequest struct {
	Timed
	Session string `thrift:"1,session,omitempty"`
	Path    string `thrift:"2,path"`
}

type OpenFileReply struct {
	Handle   int64  `thrift:"1,handle"`
	Length   int64  `thrift:"2,length"`
	Identity []byte `thrift:"3,identity"`
}

type ReadRangeRequest struct {
	Session    string `thrift:"1,session,omitempty"`
	Handle     int64  `thrift:"2,handle"`
	Offset     int64  `thrift:"3,offset"`
	Length     int32  `thrift:"4,length"`
	DeadlineMs int32  `thrift:"15,deadline_ms,omitempty"`
}

type ReadRangeReply struct {
	Data []byte `thrift:"1,data"`
}

// Timed has the field of each request that says how long its client waits.
type Timed struct {
	DeadlineMs int32 `thrift:"15,deadline_ms,omitempty"`
}

// SetDeadline sets how long the client waits for the answer, from now.
func (timed *Timed) SetDeadline(left time.Duration) {
	timed.DeadlineMs = int32(min(max(left.Milliseconds(), 1), math.MaxInt32))
}

// Mutation has the fields that each request for a change begins with.
type Mutation struct {
	Session   string `thrift:"1,session,omitempty"`
	RequestID []byte `thrift:"2,request_id,omitempty"`
	IsRetry   bool   `thrift:"3,is_retry,omitempty"`
}

// Mutating returns these fields of any request for a change.
func (mutation *Mutation) Mutating() *Mutation { return mutation }

type CreateFileRequest struct {
	Timed
	Mutation
	Path        string `thrift:"4,path"`
	Overwrite   bool   `thrift:"5,overwrite"`
	Permission  *int32 `thrift:"6,permission"`
	Replication *int16 `thrift:"7,replication"`
	BlockSize   *int64 `thrift:"8,block_size"`
	MinReplicas *int16 `thrift:"9,min_replicas"`
}

type AppendFileRequest struct {
	Timed
	Mutation
	Path string `thrift:"4,path"`
}

type OpenWriterReply struct {
	Handle   int64 `thrift:"1,handle"`
	Position int64 `thrift:"2,position"`
}

type AppendDataRequest struct {
	Mutation
	Handle         int64  `thrift:"4,handle"`
	ExpectedOffset int64  `thrift:"5,expected_offset"`
	Data           []byte `thrift:"6,data"`
	DeadlineMs     int32  `thrift:"15,deadline_ms,omitempty"`
}

type AppendDataReply struct {
	Position int64 `thrift:"1,position"`
}

type FlushFileRequest struct {
	Timed
	Session string `thrift:"1,session,omitempty"`
	Handle  int64  `thrift:"2,handle"`
	Mode    int32  `thrift:"3,mode,omitempty"`
}

type FlushFileReply struct {
	Position int64  `thrift:"1,position"`
	Replicas *int32 `thrift:"2,replicas"`
}

type CloseFileRequest struct {
	Timed
	Mutation
	Handle  int64 `thrift:"4,handle"`
	Abandon bool  `thrift:"5,abandon,omitempty"`
}

type CloseFileReply struct {
	Length   *int64 `thrift:"1,length"`
	Replicas *int32 `thrift:"2,replicas"`
}

type ConcatFilesRequest struct {
	Timed
	Mutation
	Path    string   `thrift:"4,path"`
	Sources []string `thrift:"5,sources"`
}

type TruncateFileRequest struct {
	Timed
	Mutation
	Path   string `thrift:"4,path"`
	Length int64  `thrift:"5,length"`
}

type MakeDirectoriesRequest struct {
	Timed
	Mutation
	Path       string `thrift:"4,path"`
	Permission *int32 `thrift:"5,permission"`
}

type RenamePathRequest struct {
	Timed
	Mutation
	Source  string `thrift:"4,source"`
	Target  string `thrift:"5,target"`
	Replace bool   `thrift:"6,replace"`
}

type RemovePathRequest struct {
	Timed
	Mutation
	Path      string `thrift:"4,path"`
	Recursive bool   `thrift:"5,recursive"`
}

type SetAttributesRequest struct {
	Timed
	Mutation
	Path        string  `thrift:"4,path"`
	Permission  *int32  `thrift:"5,permission"`
	Owner       *string `thrift:"6,owner"`
	Group       *string `thrift:"7,group"`
	ModifiedMs  *int64  `thrift:"8,modified_ms"`
	AccessedMs  *int64  `thrift:"9,accessed_ms"`
	Replication *int16  `thrift:"10,replication"`
}

type MutationReply struct{}

type GetBlockLocationsRequest struct {
	Timed
	Session string `thrift:"1,session,omitempty"`
	Path    string `thrift:"2,path"`
	Offset  int64  `thrift:"3,offset"`
	Length  *int64 `thrift:"4,length"`
}

type GetBlockLocationsReply struct {
	Blocks []BlockLocation `thrift:"1,blocks"`
}

type GetChecksumRequest struct {
	Timed
	Session string `thrift:"1,session,omitempty"`
	Path    string `thrift:"2,path"`
}

type GetChecksumReply struct {
	Algorithm string `thrift:"1,algorithm"`
	Value     []byte `thrift:"2,value"`
}

type GetStoreStatusRequest struct {
	Timed
	Session string `thrift:"1,session,omitempty"`
}

type GetStoreStatusReply struct {
	Store     StoreInfo `thrift:"1,store"`
	Capacity  int64     `thrift:"2,capacity"`
	Used      int64     `thrift:"3,used"`
	Remaining int64     `thrift:"4,remaining"`
	Settling  bool      `thrift:"5,settling"`
}

// Method is a method of DfsV2 by its name, request and reply.
type Method[Request, Reply any] struct{ Name string }

// The methods of DfsV2.
var (
	ServerInfo        = Method[ServerInfoRequest, ServerInfoReply]{"serverInfo"}
	OpenSession       = Method[OpenSessionRequest, OpenSessionReply]{"openSession"}
	CloseSession      = Method[CloseSessionRequest, CloseSessionReply]{"closeSession"}
	GetFileInfo       = Method[GetFileInfoRequest, GetFileInfoReply]{"getFileInfo"}
	ListDirectory     = Method[ListDirectoryRequest, ListDirectoryReply]{"listDirectory"}
	GetBlockLocations = Method[GetBlockLocationsRequest, GetBlockLocationsReply]{"getBlockLocations"}
	GetChecksum       = Method[GetChecksumRequest, GetChecksumReply]{"getChecksum"}
	GetStoreStatus    = Method[GetStoreStatusRequest, GetStoreStatusReply]{"getStoreStatus"}
	OpenFile          = Method[OpenFileRequest, OpenFileReply]{"openFile"}
	ReadRange         = Method[ReadRangeRequest, ReadRangeReply]{"readRange"}
	CreateFile        = Method[CreateFileRequest, OpenWriterReply]{"createFile"}
	AppendFile        = Method[AppendFileRequest, OpenWriterReply]{"appendFile"}
	AppendData        = Method[AppendDataRequest, AppendDataReply]{"appendData"}
	FlushFile         = Method[FlushFileRequest, FlushFileReply]{"flushFile"}
	CloseFile         = Method[CloseFileRequest, CloseFileReply]{"closeFile"}
	TruncateFile      = Method[TruncateFileRequest, MutationReply]{"truncateFile"}
	ConcatFiles       = Method[ConcatFilesRequest, MutationReply]{"concatFiles"}
	MakeDirectories   = Method[MakeDirectoriesRequest, MutationReply]{"makeDirectories"}
	RenamePath        = Method[RenamePathRequest, MutationReply]{"renamePath"}
	RemovePath        = Method[RemovePathRequest, MutationReply]{"removePath"}
	SetAttributes     = Method[SetAttributesRequest, MutationReply]{"setAttributes"}
)
