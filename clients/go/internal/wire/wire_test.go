package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// messages of this package, by the names of the IDL.
var messages = []any{
	DfsError{}, FileInfo{}, BlockLocation{}, Limits{}, StoreInfo{}, ServerInfoRequest{}, ServerInfoReply{},
	OpenSessionRequest{}, OpenSessionReply{}, CloseSessionRequest{}, CloseSessionReply{},
	GetFileInfoRequest{}, GetFileInfoReply{}, ListDirectoryRequest{}, ListDirectoryReply{},
	OpenFileRequest{}, OpenFileReply{}, ReadRangeRequest{}, ReadRangeReply{}, CreateFileRequest{},
	AppendFileRequest{}, OpenWriterReply{}, AppendDataRequest{}, AppendDataReply{}, FlushFileRequest{},
	FlushFileReply{}, CloseFileRequest{}, CloseFileReply{}, TruncateFileRequest{}, ConcatFilesRequest{},
	MakeDirectoriesRequest{},
	RenamePathRequest{}, RemovePathRequest{}, SetAttributesRequest{}, MutationReply{},
	GetBlockLocationsRequest{}, GetBlockLocationsReply{}, GetChecksumRequest{}, GetChecksumReply{},
	GetStoreStatusRequest{}, GetStoreStatusReply{},
}

func TestMessagesAreThoseOfTheIDL(t *testing.T) {
	text, err := os.ReadFile("../../../../idl/dfs.thrift")
	if err != nil {
		t.Fatal(err)
	}
	_, idl, _ := strings.Cut(string(text), "-- DfsV2")
	idl = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(idl, "")
	known := map[string]string{}
	for _, message := range messages {
		known[reflect.TypeOf(message).Name()] = inIDL(reflect.TypeOf(message))
	}
	of := regexp.MustCompile(`(?s)(?:struct|exception) (\w+) \{(.*?)\}`)
	for _, found := range of.FindAllStringSubmatch(idl, -1) {
		fields := regexp.MustCompile(`(\d+): optional ([\w<>]+) (\w+)`).FindAllStringSubmatch(found[2], -1)
		var wanted []string
		for _, field := range fields {
			kind := field[2]
			switch kind {
			case "FileType", "FlushMode", "ProtocolVersion":
				kind = "i32"
			}
			wanted = append(wanted, field[1]+": "+kind+" "+field[3])
		}
		ours, isKnown := known[found[1]]
		if !isKnown || ours != strings.Join(wanted, ", ") {
			t.Errorf("%s is %q, in the IDL %q", found[1], ours, wanted)
		}
		delete(known, found[1])
	}
	for name := range known {
		t.Errorf("the IDL has no %s", name)
	}
	methods := regexp.MustCompile(`(\w+) (\w+)\(1: (\w+) request\)`).FindAllStringSubmatch(idl, -1)
	if len(methods) != 21 {
		t.Errorf("the IDL has %d methods", len(methods))
	}
}

func inIDL(message reflect.Type) string {
	var fields []string
	for _, field := range fieldsOf(message) {
		of := message.FieldByIndex(field.index).Type
		fields = append(fields, fmt.Sprintf("%d: %s %s", field.id, idlType(of), field.name))
	}
	return strings.Join(fields, ", ")
}

func idlType(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return idlType(of.Elem())
	case reflect.Struct:
		return of.Name()
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "binary"
		}
		return "list<" + idlType(of.Elem()) + ">"
	case reflect.Int16, reflect.Int32, reflect.Int64:
		return "i" + of.String()[len("int"):]
	}
	return of.String()
}

var protocols = map[string]Protocol{
	"framed binary": {Framed: true}, "binary": {}, "framed compact": {Compact: true, Framed: true}, "compact": {Compact: true},
}

// reply is the bytes of a reply with this result, made from a request's: they differ in the type of
// the message and the id of the one field.
func reply(t testing.TB, protocol Protocol, result any) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := NewEncoder(Protocol{Compact: protocol.Compact}).Send(&out, "m", 7, result); err != nil {
		t.Fatal(err)
	}
	message := out.Bytes()
	if protocol.Compact {
		message[1] = compactVersion | typeReply<<5
		message = append(message[:5:5], append([]byte{message[5] & 0x0f, 0}, message[6:]...)...)
	} else {
		message[3] = typeReply
		message[4+4+1+4+2] = 0
	}
	if protocol.Framed {
		message = append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
	}
	return message
}

func TestARepliesFieldsComeBack(t *testing.T) {
	replicas := int32(3)
	for name, protocol := range protocols {
		sent := FlushFileReply{Position: -1 << 40, Replicas: &replicas}
		var got FlushFileReply
		err := NewDecoder(protocol, bytes.NewReader(reply(t, protocol, &sent))).Receive("m", 7, &got)
		if err != nil || !reflect.DeepEqual(got, sent) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		// Unknown fields are skipped.
		big := SetAttributesRequest{Path: "x", Permission: &replicas, Mutation: Mutation{RequestID: make([]byte, 50_000), IsRetry: true}}
		var none MutationReply
		if err := NewDecoder(protocol, bytes.NewReader(reply(t, protocol, &big))).Receive("m", 7, &none); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// A payload goes into the caller's memory, and never beyond it.
		data := ReadRangeReply{Data: bytes.Repeat([]byte("x"), 40_000)}
		into := make([]byte, 50_000)
		count, err := NewDecoder(protocol, bytes.NewReader(reply(t, protocol, &data))).ReceiveInto("m", 7, into)
		if err != nil || !bytes.Equal(into[:count], data.Data) {
			t.Errorf("%s: %d bytes, %v", name, count, err)
		}
		var malformed *MalformedError
		_, err = NewDecoder(protocol, bytes.NewReader(reply(t, protocol, &data))).ReceiveInto("m", 7, into[:39_999])
		if !errors.As(err, &malformed) {
			t.Errorf("%s, too much: %v", name, err)
		}
		if err = NewDecoder(protocol, bytes.NewReader(reply(t, protocol, &sent))).Receive("m", 8, &got); !errors.As(err, &malformed) {
			t.Errorf("%s, another's: %v", name, err)
		}
		for _, method := range []string{"n", "", "mm"} {
			err = NewDecoder(protocol, bytes.NewReader(reply(t, protocol, &sent))).Receive(method, 7, &got)
			if !errors.As(err, &malformed) {
				t.Errorf("%s, to %q: %v", name, method, err)
			}
		}
	}
}

func TestAListOfTextsComesBack(t *testing.T) {
	for name, protocol := range protocols {
		for _, count := range []int{0, 1, 14, 15, 200} { // the compact protocol counts to 14 in the head's first byte
			sent := ConcatFilesRequest{Path: "/to", Sources: []string{}}
			for i := range count {
				sent.Sources = append(sent.Sources, fmt.Sprintf("/from/%d", i))
			}
			got := ConcatFilesRequest{Sources: []string{}}
			err := NewDecoder(protocol, bytes.NewReader(reply(t, protocol, &sent))).Receive("m", 7, &got)
			if err != nil || got.Path != sent.Path || !slices.Equal(got.Sources, sent.Sources) {
				t.Errorf("%s, %d: %+v, %v", name, count, got, err)
			}
		}
	}
}

// TestOneReplysElementsAreCountedTogether: each takes more memory than it has bytes.
func TestOneReplysElementsAreCountedTogether(t *testing.T) {
	head := "\x80\x01\x00\x02\x00\x00\x00\x01m\x00\x00\x00\x07\x0c\x00\x00"
	list := func(field string, elements byte, count int, of string) string {
		size := string(binary.BigEndian.AppendUint32([]byte{elements}, uint32(count)))
		return field + size + strings.Repeat(of, count)
	}
	const half = maxElements / 2
	for _, one := range []struct {
		what, fields string
		isTooMuch    bool
	}{
		{"structs", list("\x0f\x00\x01", typeStruct, half-1, "\x00"), false},
		{"too many structs", list("\x0f\x00\x01", typeStruct, half, "\x00"), true},
		{"a skipped set", list("\x0e\x00\x63", typeByte, maxElements-1, "x"), false},
		{"a large skipped set", list("\x0e\x00\x63", typeByte, maxElements, "x"), true},
		{"two skipped lists", strings.Repeat(list("\x0f\x00\x63", typeByte, half, "x"), 2), true},
		{"a skipped map", list("\x0d\x00\x63\x03", typeByte, maxElements, "xx"), true},
		{"skipped structs", strings.Repeat("\x0c\x00\x63\x00", maxElements), true},
	} {
		message := head + one.fields + "\x00\x00"
		var malformed *MalformedError
		err := NewDecoder(Protocol{}, strings.NewReader(message)).Receive("m", 7, &ListDirectoryReply{})
		if errors.As(err, &malformed) != one.isTooMuch || err != nil && !one.isTooMuch {
			t.Errorf("%s: %v", one.what, err)
		}
	}
}

// FuzzReply: no bytes make the decoder panic or loop.
func FuzzReply(f *testing.F) {
	replicas := int32(3)
	for _, protocol := range protocols {
		f.Add(protocol.Compact, protocol.Framed, reply(f, protocol, &FlushFileReply{Position: 5, Replicas: &replicas}))
	}
	f.Add(false, false, []byte("\x80\x01\x00\x02\x00\x00\x00\x01m\x00\x00\x00\x07\x0c\x00\x00\x0f\x00\x01\x0c\x00\xff\xff\xff"))
	f.Add(true, true, []byte("\x00\xff\xff\xff\x82\x41\x07\x01m\x0c\x00\x19\xfc\xff\xff\xff\x07"))
	f.Fuzz(func(t *testing.T, compact, framed bool, data []byte) {
		protocol := Protocol{Compact: compact, Framed: framed}
		for _, message := range []any{&ListDirectoryReply{}, &OpenSessionReply{}, &GetBlockLocationsReply{}} {
			_ = NewDecoder(protocol, bytes.NewReader(data)).Receive("m", 7, message)
		}
		_, _ = NewDecoder(protocol, bytes.NewReader(data)).ReceiveInto("m", 7, make([]byte, 100))
	})
}
