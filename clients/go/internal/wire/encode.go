package wire

import (
	"encoding/binary"
	"io"
	"net"
	"reflect"
)

// Protocol is one of the client's four wires.
type Protocol struct {
	Compact, Framed bool
}

// Types of messages.
const (
	typeCall      = 1
	typeReply     = 2
	typeException = 3
)

const (
	binaryVersion  = 0x8001_0000
	compactID      = 0x82
	compactVersion = 1
	frameBytes     = 4
)

// sendAloneBytes is the size from which on a payload is sent from the caller's memory. Below, a
// copy is cheaper than another part of a writev.
const sendAloneBytes = 16 << 10

// Encoder writes requests. It is for one goroutine at a time.
type Encoder struct {
	protocol Protocol
	buffer   []byte
	large    []largePart
	parts    net.Buffers
	last     int16 // id of the field before, in the compact protocol
}

type largePart struct {
	after int // bytes of the buffer before it
	data  []byte
}

// NewEncoder returns an encoder for this wire.
func NewEncoder(protocol Protocol) *Encoder {
	return &Encoder{protocol: protocol}
}

// Send writes one request: a pointer to a message.
func (e *Encoder) Send(to io.Writer, method string, sequence int32, request any) error {
	e.buffer = e.buffer[:0]
	e.large = e.large[:0]
	if e.protocol.Framed {
		e.buffer = append(e.buffer, make([]byte, frameBytes)...)
	}
	e.begin(method, sequence)
	e.last = 0
	e.header(typeStruct, 1)
	e.structure(reflect.ValueOf(request).Elem())
	e.buffer = append(e.buffer, typeStop)
	total := len(e.buffer)
	for _, part := range e.large {
		total += len(part.data)
	}
	if e.protocol.Framed {
		binary.BigEndian.PutUint32(e.buffer, uint32(total-frameBytes))
	}
	if len(e.large) == 0 {
		_, err := to.Write(e.buffer)
		return err
	}
	e.parts = e.parts[:0]
	begin := 0
	for _, part := range e.large {
		e.parts = append(e.parts, e.buffer[begin:part.after], part.data)
		begin = part.after
	}
	e.parts = append(e.parts, e.buffer[begin:])
	parts := e.parts // WriteTo consumes it
	_, err := parts.WriteTo(to)
	clear(e.parts[:cap(e.parts)])
	clear(e.large)
	return err
}

func (e *Encoder) begin(method string, sequence int32) {
	if e.protocol.Compact {
		e.buffer = append(e.buffer, compactID, compactVersion|typeCall<<5)
		e.buffer = binary.AppendUvarint(e.buffer, uint64(uint32(sequence)))
		e.length(len(method))
		e.buffer = append(e.buffer, method...)
		return
	}
	e.buffer = binary.BigEndian.AppendUint32(e.buffer, binaryVersion|typeCall)
	e.length(len(method))
	e.buffer = append(e.buffer, method...)
	e.buffer = binary.BigEndian.AppendUint32(e.buffer, uint32(sequence))
}

func (e *Encoder) structure(message reflect.Value) {
	before := e.last
	e.last = 0
	for _, field := range fieldsOf(message.Type()) {
		value := message.FieldByIndex(field.index)
		if field.isPointer {
			if value.IsNil() {
				continue
			}
			value = value.Elem()
		} else if field.omitEmpty && isEmpty(value) {
			continue
		}
		if field.kind == typeBool && e.protocol.Compact {
			kind := compactFalse
			if value.Bool() {
				kind = compactTrue
			}
			e.compactHeader(kind, field.id)
			continue
		}
		e.header(field.kind, field.id)
		e.value(value, field)
	}
	e.buffer = append(e.buffer, typeStop)
	e.last = before
}

func isEmpty(value reflect.Value) bool {
	return value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
}

func (e *Encoder) header(kind byte, id int16) {
	if e.protocol.Compact {
		e.compactHeader(compactTypes[kind], id)
		return
	}
	e.buffer = append(e.buffer, kind)
	e.buffer = binary.BigEndian.AppendUint16(e.buffer, uint16(id))
}

func (e *Encoder) compactHeader(kind byte, id int16) {
	// Ids only grow within a message, and none is above 15.
	e.buffer = append(e.buffer, byte(id-e.last)<<4|kind)
	e.last = id
}

func (e *Encoder) value(value reflect.Value, field field) {
	switch field.kind {
	case typeBool:
		bit := byte(0)
		if value.Bool() {
			bit = 1
		}
		e.buffer = append(e.buffer, bit)
	case typeI16, typeI32, typeI64:
		e.integer(field.kind, value.Int())
	case typeString:
		if value.Kind() == reflect.String {
			text := value.String()
			e.length(len(text))
			e.buffer = append(e.buffer, text...)
			return
		}
		e.bytes(value.Bytes())
	case typeList:
		e.texts(value, field)
	default:
		panic("no request has a field of this type: " + field.name)
	}
}

// texts are the elements of a list; no request has lists of other kinds.
func (e *Encoder) texts(list reflect.Value, field field) {
	count := list.Len()
	switch {
	case !e.protocol.Compact:
		e.buffer = append(e.buffer, field.elements)
		e.buffer = binary.BigEndian.AppendUint32(e.buffer, uint32(count))
	case count < 15:
		e.buffer = append(e.buffer, byte(count)<<4|compactTypes[field.elements])
	default:
		e.buffer = append(e.buffer, 15<<4|compactTypes[field.elements])
		e.length(count)
	}
	element := field
	element.kind = field.elements
	for i := range count {
		e.value(list.Index(i), element)
	}
}

func (e *Encoder) bytes(data []byte) {
	e.length(len(data))
	if len(data) < sendAloneBytes {
		e.buffer = append(e.buffer, data...)
		return
	}
	e.large = append(e.large, largePart{len(e.buffer), data})
}

func (e *Encoder) integer(kind byte, value int64) {
	switch {
	case e.protocol.Compact:
		e.buffer = binary.AppendVarint(e.buffer, value)
	case kind == typeI16:
		e.buffer = binary.BigEndian.AppendUint16(e.buffer, uint16(value))
	case kind == typeI32:
		e.buffer = binary.BigEndian.AppendUint32(e.buffer, uint32(value))
	default:
		e.buffer = binary.BigEndian.AppendUint64(e.buffer, uint64(value))
	}
}

func (e *Encoder) length(length int) {
	if e.protocol.Compact {
		e.buffer = binary.AppendUvarint(e.buffer, uint64(length))
	} else {
		e.buffer = binary.BigEndian.AppendUint32(e.buffer, uint32(length))
	}
}
