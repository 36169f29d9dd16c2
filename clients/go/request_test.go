package strait

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/strait-fs/strait/clients/go/internal/wire"
)

// exchanger sends one request once, and returns a pointer to its reply.
type exchanger struct {
	request func() any
	reply   func() any
}

func exchangerOf[Request, Reply any](wire.Method[Request, Reply]) exchanger {
	return exchanger{func() any { return new(Request) }, func() any { return new(Reply) }}
}

var exchangers = map[string]exchanger{
	"openFile":      exchangerOf(wire.OpenFile),
	"readRange":     exchangerOf(wire.ReadRange),
	"createFile":    exchangerOf(wire.CreateFile),
	"appendFile":    exchangerOf(wire.AppendFile),
	"appendData":    exchangerOf(wire.AppendData),
	"flushFile":     exchangerOf(wire.FlushFile),
	"closeFile":     exchangerOf(wire.CloseFile),
	"listDirectory": exchangerOf(wire.ListDirectory),
	"removePath":    exchangerOf(wire.RemovePath),
	"renamePath":    exchangerOf(wire.RenamePath),
}

// request sends a literal request, below the client.
func (r *caseRun) request(one step) error {
	method := one["method"].(string)
	how, known := exchangers[method]
	if !known {
		return fmt.Errorf("the driver doesn't know %s", method)
	}
	request, reply := how.request(), how.reply()
	args, _ := one["args"].(map[string]any)
	for name, given := range args {
		if err := r.set(request, name, given); err != nil {
			return err
		}
	}
	client := r.client
	if name, isOther := one["client"].(string); isOther {
		if r.others[name] == nil {
			r.others[name] = dialTest(r.t, r.address, r.options)
		}
		client = r.others[name]
	}
	err := client.session.once(r.ctx, client.session.deadline(r.ctx), func(c *connection) error {
		return c.call(method, "", request, reply)
	})
	if err != nil {
		return err
	}
	expect, _ := one["expect"].(map[string]any)
	for name, given := range expect {
		member, err := memberOf(reply, name)
		if err != nil {
			return err
		}
		wanted := reflect.New(member.Type()).Elem()
		r.assign(wanted, name, given)
		if fmt.Sprint(reflect.Indirect(member)) != fmt.Sprint(reflect.Indirect(wanted)) {
			return fmt.Errorf("another %s: %v", name, member)
		}
	}
	save, _ := one["save"].(map[string]any)
	for name, as := range save {
		member, err := memberOf(reply, name)
		if err != nil {
			return err
		}
		r.saved[as.(string)] = reflect.Indirect(member).Int()
	}
	return nil
}

func (r *caseRun) set(message any, name string, given any) error {
	member, err := memberOf(message, name)
	if err == nil {
		r.assign(member, name, given)
	}
	return err
}

func (r *caseRun) assign(member reflect.Value, name string, given any) {
	if member.Kind() == reflect.Pointer {
		member.Set(reflect.New(member.Type().Elem()))
		member = member.Elem()
	}
	switch given := given.(type) {
	case bool:
		member.SetBool(given)
	case json.Number:
		value, err := given.Int64()
		ok(r.t, err)
		member.SetInt(value)
	case map[string]any:
		member.SetBytes(r.bytes(given))
	case string:
		saved, isSaved := strings.CutPrefix(given, "$")
		switch {
		case slices.Contains([]string{"path", "source", "target"}, name):
			member.SetString(r.directory + given)
		case isSaved:
			member.SetInt(r.saved[saved].(int64))
		default:
			member.SetString(given)
		}
	}
}

// memberOf finds a message's member by its name in the IDL.
func memberOf(message any, name string) (reflect.Value, error) {
	value := reflect.ValueOf(message).Elem()
	for _, member := range reflect.VisibleFields(value.Type()) {
		tag := strings.Split(member.Tag.Get("thrift"), ",")
		if len(tag) > 1 && tag[1] == name {
			return value.FieldByIndex(member.Index), nil
		}
	}
	return reflect.Value{}, fmt.Errorf("the message has no field %s", name)
}
