package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// MaxMessageBytes is the largest message that a client accepts: a gateway's largest payload is
// 4 MiB, and its pages of listings are smaller than that.
const MaxMessageBytes = 16 << 20

const (
	// bufferBytes is received at once. A larger buffer would copy more of a large payload.
	bufferBytes = 16 << 10
	// believedBytes is allocated by a claimed length before the bytes are there.
	believedBytes = 1 << 20
	// maxElements of all lists, sets and maps of a reply, and structs, together: an element of one byte
	// can take hundreds of bytes of memory. A page of a listing has some thousand.
	maxElements = 1 << 18
	// maxDepth of an unknown field; no message of DfsV2 nests deeper than four.
	maxDepth = 64
	// varBytes is the most of a number in the compact protocol.
	varBytes = 10
)

// Refusal is Thrift's own error: the peer doesn't know the method, or failed outside of it.
type Refusal struct {
	Message string `thrift:"1,message"`
	Type    int32  `thrift:"2,type"`
}

// UnknownMethod is the type of a Refusal of an unknown method.
const UnknownMethod = 1

func (r *Refusal) Error() string { return r.Message }

func (e *DfsError) Error() string { return e.Message }

// A MalformedError says that received bytes are no reply of the protocol.
type MalformedError struct{ reason string }

func (e *MalformedError) Error() string { return e.reason }

// Decoder reads replies. It is for one goroutine at a time.
type Decoder struct {
	protocol   Protocol
	from       io.Reader
	buffer     []byte
	begin, end int
	left       int // bytes that the message may still have
	allowed    int // elements that it may still have
	err        error
	last       int16 // id of the field before, in the compact protocol
	bit        bool  // the boolean field whose header was read last
	sink       []byte
	hasSink    bool
	filled     int
}

// NewDecoder returns a decoder of replies on this wire.
func NewDecoder(protocol Protocol, from io.Reader) *Decoder {
	return &Decoder{protocol: protocol, from: from, buffer: make([]byte, bufferBytes)}
}

// Receive reads the reply with this method and sequence number into a message. It returns a *DfsError or
// *Refusal if the reply is one of these; with any other error the connection is unusable.
func (d *Decoder) Receive(method string, sequence int32, reply any) error {
	d.hasSink = false
	return d.receive(method, sequence, reflect.ValueOf(reply).Elem())
}

// ReceiveInto is Receive for the reply to a readRange, whose bytes it reads into `sink`. It returns
// their number.
func (d *Decoder) ReceiveInto(method string, sequence int32, sink []byte) (int, error) {
	d.sink, d.hasSink, d.filled = sink, true, 0
	var reply ReadRangeReply
	err := d.receive(method, sequence, reflect.ValueOf(&reply).Elem())
	d.sink, d.hasSink = nil, false
	return d.filled, err
}

func (d *Decoder) receive(method string, sequence int32, reply reflect.Value) error {
	if d.err != nil {
		return d.err
	}
	d.left, d.allowed = MaxMessageBytes, maxElements
	if d.protocol.Framed {
		d.left = frameBytes
		length := binary.BigEndian.Uint32(d.take(frameBytes))
		if length > MaxMessageBytes {
			d.fail("an over-long frame came")
		}
		d.left = int(length)
	}
	told := d.message(method, sequence, reply)
	if d.protocol.Framed && d.left != 0 {
		d.fail("a frame and its message differ in length")
	}
	if d.err != nil {
		return d.err
	}
	return told
}

// message reads one reply, and returns the error that it holds.
func (d *Decoder) message(method string, sequence int32, reply reflect.Value) error {
	kind, isOfMethod, got := d.header(method)
	if !isOfMethod || got != sequence || kind != typeReply && kind != typeException {
		d.fail("a reply to another request came")
		return nil
	}
	if kind == typeException {
		refusal := &Refusal{}
		d.structure(reflect.ValueOf(refusal).Elem(), 0)
		return refusal
	}
	var told error
	answered := false
	d.last = 0
	for d.err == nil {
		kind, id := d.field()
		if kind == typeStop {
			break
		}
		switch {
		case id == 0 && kind == typeStruct:
			d.structure(reply, 0)
			answered = true
		case id == 1 && kind == typeStruct:
			failure := &DfsError{}
			d.structure(reflect.ValueOf(failure).Elem(), 0)
			told, answered = failure, true
		default:
			d.skip(kind, 0)
		}
	}
	if !answered {
		d.fail("a reply without a result came")
	}
	return told
}

func (d *Decoder) header(method string) (kind byte, isOfMethod bool, sequence int32) {
	if d.protocol.Compact {
		id, version := d.byte(), d.byte()
		if id != compactID || version&0x1f != compactVersion {
			d.fail("the peer doesn't speak compact Thrift")
		}
		sequence = int32(d.uvarint())
		return version >> 5, d.names(method), sequence
	}
	version := binary.BigEndian.Uint32(d.take(4))
	if version&0xffff_0000 != binaryVersion {
		d.fail("the peer doesn't speak binary Thrift")
	}
	isOfMethod = d.names(method)
	return byte(version), isOfMethod, int32(binary.BigEndian.Uint32(d.take(4)))
}

// names reads a name, and says whether it is this one.
func (d *Decoder) names(method string) bool {
	length := d.length()
	if length != len(method) {
		d.discard(length)
		return false
	}
	return string(d.take(length)) == method
}

func (d *Decoder) structure(message reflect.Value, depth int) {
	d.spend(1)
	fields := fieldsOf(message.Type())
	before := d.last
	d.last = 0
	for d.err == nil {
		kind, id := d.field()
		if kind == typeStop {
			break
		}
		known := -1
		for n := range fields {
			if fields[n].id == id && fields[n].kind == kind {
				known = n
			}
		}
		if known < 0 {
			d.skip(kind, depth)
			continue
		}
		field := &fields[known]
		value := message.FieldByIndex(field.index)
		if field.isPointer {
			value.Set(reflect.New(value.Type().Elem()))
			value = value.Elem()
		}
		d.value(value, field, depth)
	}
	d.last = before
}

func (d *Decoder) value(value reflect.Value, field *field, depth int) {
	switch field.kind {
	case typeBool:
		value.SetBool(d.boolean())
	case typeI16, typeI32, typeI64:
		value.SetInt(d.integer(field.kind))
	case typeString:
		if value.Kind() == reflect.String {
			value.SetString(string(d.bytes()))
		} else if d.hasSink {
			d.drain()
		} else {
			value.SetBytes(d.bytes())
		}
	case typeStruct:
		d.structure(value, depth+1)
	case typeList:
		kind, count := d.list()
		if kind != field.elements {
			d.skipAll(kind, count, depth)
			return
		}
		d.elements(value, kind, count, depth)
	}
}

func (d *Decoder) elements(list reflect.Value, kind byte, count, depth int) {
	element := reflect.New(list.Type().Elem()).Elem()
	for range count {
		if d.err != nil {
			return
		}
		element.SetZero()
		if kind == typeStruct {
			d.structure(element, depth+1)
		} else {
			element.SetString(string(d.bytes())) // no message has lists of other kinds
		}
		list.Set(reflect.Append(list, element))
	}
}

// drain reads a payload into the caller's memory.
func (d *Decoder) drain() {
	length := d.length()
	if length > len(d.sink) {
		d.fail("more bytes came than were asked for")
		return
	}
	d.read(d.sink[:length])
	d.filled = length
}

func (d *Decoder) field() (kind byte, id int16) {
	if !d.protocol.Compact {
		kind = d.byte()
		if kind == typeStop {
			return kind, 0
		}
		return kind, int16(binary.BigEndian.Uint16(d.take(2)))
	}
	first := d.byte()
	if first == typeStop {
		return typeStop, 0
	}
	if delta := int16(first >> 4); delta != 0 {
		id = d.last + delta
	} else {
		id = int16(d.varint())
	}
	d.last = id
	d.bit = first&0x0f == compactTrue
	return d.compactKind(first & 0x0f), id
}

func (d *Decoder) compactKind(number byte) byte {
	kind, ok := fromCompact(number)
	if !ok {
		d.fail("a field of an unknown type came")
	}
	return kind
}

func (d *Decoder) boolean() bool {
	if d.protocol.Compact {
		return d.bit
	}
	return d.byte() != 0
}

func (d *Decoder) integer(kind byte) int64 {
	switch {
	case d.protocol.Compact:
		return d.varint()
	case kind == typeI16:
		return int64(int16(binary.BigEndian.Uint16(d.take(2))))
	case kind == typeI32:
		return int64(int32(binary.BigEndian.Uint32(d.take(4))))
	default:
		return int64(binary.BigEndian.Uint64(d.take(8)))
	}
}

// list reads the head of a list or set.
func (d *Decoder) list() (kind byte, count int) {
	if !d.protocol.Compact {
		kind = d.byte()
		count = d.length()
	} else {
		first := d.byte()
		kind = d.compactKind(first & 0x0f)
		count = int(first >> 4)
		if count == 15 {
			count = d.length()
		}
	}
	// Each element has at least one byte.
	if count > d.left {
		d.fail("a list claims to be longer than its message")
	}
	return kind, d.spend(count)
}

// spend takes elements from those that the message may still have; it returns how many are to be read.
func (d *Decoder) spend(count int) int {
	if count > d.allowed {
		d.fail("a message has too many elements")
	}
	if d.err != nil {
		return 0
	}
	d.allowed -= count
	return count
}

// length of a text or list.
func (d *Decoder) length() int {
	var length uint64
	if d.protocol.Compact {
		length = d.uvarint()
	} else {
		length = uint64(binary.BigEndian.Uint32(d.take(4)))
	}
	if length > uint64(d.left) {
		d.fail("a text claims to be longer than its message")
		return 0
	}
	return int(length)
}

func (d *Decoder) bytes() []byte {
	length := d.length()
	data := make([]byte, 0, min(length, believedBytes))
	for len(data) < length && d.err == nil {
		more := min(length-len(data), believedBytes)
		data = append(data, make([]byte, more)...)
		d.read(data[len(data)-more:])
	}
	return data
}

// -- Unknown fields

func (d *Decoder) skip(kind byte, depth int) {
	if depth > maxDepth {
		d.fail("a message nests too deeply")
	}
	if d.err != nil {
		return
	}
	switch kind {
	case typeBool:
		d.boolean()
	case typeByte:
		d.byte()
	case typeI16, typeI32, typeI64:
		d.integer(kind)
	case typeDouble:
		d.discard(8)
	case typeUUID:
		d.discard(16)
	case typeString:
		d.discard(d.length())
	case typeStruct:
		d.skipStructure(depth)
	case typeList, typeSet:
		elements, count := d.list()
		d.skipAll(elements, count, depth)
	case typeMap:
		d.skipMap(depth)
	default:
		d.fail("a field of an unknown type came")
	}
}

func (d *Decoder) skipStructure(depth int) {
	d.spend(1)
	before := d.last
	d.last = 0
	for d.err == nil {
		kind, _ := d.field()
		if kind == typeStop {
			break
		}
		d.skip(kind, depth+1)
	}
	d.last = before
}

func (d *Decoder) skipAll(kind byte, count, depth int) {
	for range count {
		if d.err != nil {
			return
		}
		d.skipElement(kind, depth)
	}
}

// skipElement of a list, set or map, where booleans have a byte of their own in both protocols.
func (d *Decoder) skipElement(kind byte, depth int) {
	if kind == typeBool {
		d.byte()
	} else {
		d.skip(kind, depth+1)
	}
}

func (d *Decoder) skipMap(depth int) {
	var keys, values byte
	var count int
	if d.protocol.Compact {
		if count = d.length(); count == 0 {
			return
		}
		both := d.byte()
		keys, values = d.compactKind(both>>4), d.compactKind(both&0x0f)
	} else {
		keys, values = d.byte(), d.byte()
		count = d.length()
	}
	for range d.spend(count) {
		if d.err != nil {
			return
		}
		d.skipElement(keys, depth)
		d.skipElement(values, depth)
	}
}

// -- Bytes

func (d *Decoder) fail(reason string) {
	if d.err == nil {
		d.err = &MalformedError{reason}
	}
}

// claim takes bytes from what the message may still have.
func (d *Decoder) claim(count int) bool {
	if d.err == nil && count > d.left {
		d.fail("a message goes beyond its end")
	}
	if d.err != nil {
		return false
	}
	d.left -= count
	return true
}

var zeros [bufferBytes]byte

// take returns a few bytes, valid until the next call; zeros after an error.
func (d *Decoder) take(count int) []byte {
	if !d.claim(count) || !d.have(count) {
		return zeros[:count]
	}
	d.begin += count
	return d.buffer[d.begin-count : d.begin]
}

// have receives until the buffer has at least this many unread bytes.
func (d *Decoder) have(count int) bool {
	if d.end-d.begin >= count {
		return true
	}
	d.end = copy(d.buffer, d.buffer[d.begin:d.end])
	d.begin = 0
	for d.end < count {
		more, err := d.from.Read(d.buffer[d.end:])
		d.end += more
		if more == 0 && err != nil {
			d.lose(err)
			return false
		}
	}
	return true
}

func (d *Decoder) lose(err error) {
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the gateway closed the connection: %w", io.ErrUnexpectedEOF)
	}
	d.err = err
}

func (d *Decoder) byte() byte { return d.take(1)[0] }

func (d *Decoder) read(into []byte) {
	if !d.claim(len(into)) {
		return
	}
	count := copy(into, d.buffer[d.begin:d.end])
	d.begin += count
	for into = into[count:]; len(into) >= len(d.buffer); into = into[count:] {
		var err error
		count, err = d.from.Read(into)
		if count == 0 && err != nil {
			d.lose(err)
			return
		}
	}
	if len(into) != 0 && d.have(len(into)) {
		d.begin += copy(into, d.buffer[d.begin:])
	}
}

func (d *Decoder) discard(count int) {
	for count > 0 && d.err == nil {
		part := min(count, d.left, len(d.buffer))
		if part == 0 {
			d.fail("a message goes beyond its end")
			return
		}
		d.take(part)
		count -= part
	}
}

func (d *Decoder) uvarint() uint64 {
	var value uint64
	for shift := 0; shift < 7*varBytes; shift += 7 {
		next := d.byte()
		value |= uint64(next&0x7f) << shift
		if next < 0x80 {
			return value
		}
	}
	d.fail("an over-long number came")
	return 0
}

func (d *Decoder) varint() int64 {
	value := d.uvarint()
	return int64(value>>1) ^ -int64(value&1)
}

// Unread says whether bytes have come that belong to no reply yet.
func (d *Decoder) Unread() bool { return d.begin != d.end }
