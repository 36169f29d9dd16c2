package wire

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Thrift's numbers of types in the binary protocol.
const (
	typeStop   byte = 0
	typeBool   byte = 2
	typeByte   byte = 3
	typeDouble byte = 4
	typeI16    byte = 6
	typeI32    byte = 8
	typeI64    byte = 10
	typeString byte = 11
	typeStruct byte = 12
	typeMap    byte = 13
	typeSet    byte = 14
	typeList   byte = 15
	typeUUID   byte = 16
)

// field is one field of a message.
type field struct {
	id        int16
	name      string
	index     []int
	kind      byte
	elements  byte // kind of a list's elements
	omitEmpty bool
	isPointer bool
}

var plans sync.Map // of []field by reflect.Type

// fieldsOf returns the fields of a message's type, in the order of their ids.
func fieldsOf(message reflect.Type) []field {
	if known, ok := plans.Load(message); ok {
		return known.([]field)
	}
	var fields []field
	for _, member := range reflect.VisibleFields(message) {
		tag := member.Tag.Get("thrift")
		if tag == "" {
			continue
		}
		parts := strings.Split(tag, ",")
		id, err := strconv.ParseInt(parts[0], 10, 16)
		if err != nil {
			panic("a field without an id: " + member.Name)
		}
		of := member.Type
		isPointer := of.Kind() == reflect.Pointer
		if isPointer {
			of = of.Elem()
		}
		next := field{
			id:        int16(id),
			name:      parts[1],
			index:     member.Index,
			kind:      kindOf(of),
			omitEmpty: slices.Contains(parts, "omitempty"),
			isPointer: isPointer,
		}
		if next.kind == typeList {
			next.elements = kindOf(of.Elem())
		}
		fields = append(fields, next)
	}
	slices.SortFunc(fields, func(a, b field) int { return int(a.id) - int(b.id) })
	plans.Store(message, fields)
	return fields
}

func kindOf(of reflect.Type) byte {
	switch of.Kind() {
	case reflect.Bool:
		return typeBool
	case reflect.Int16:
		return typeI16
	case reflect.Int32:
		return typeI32
	case reflect.Int64:
		return typeI64
	case reflect.String:
		return typeString
	case reflect.Struct:
		return typeStruct
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return typeString
		}
		return typeList
	default:
		panic("no message has a field of type " + of.String())
	}
}

// The compact protocol has numbers of its own for types.
var compactTypes = [...]byte{
	typeStop: 0, typeBool: 1, typeByte: 3, typeDouble: 7, typeI16: 4, typeI32: 5, typeI64: 6,
	typeString: 8, typeStruct: 12, typeMap: 11, typeSet: 10, typeList: 9, typeUUID: 13,
}

func fromCompact(kind byte) (byte, bool) {
	if kind == compactFalse {
		return typeBool, true
	}
	number := slices.Index(compactTypes[:], kind)
	return byte(number), number >= 0
}

const (
	compactTrue  byte = 1
	compactFalse byte = 2
)
