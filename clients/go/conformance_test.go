package strait

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// The cases that every client language runs: clients/conformance/README.md has their rules.

type caseFile struct {
	Format int `json:"format"`
	Cases  []struct {
		Name  string   `json:"name"`
		Needs []string `json:"needs"`
		Steps []step   `json:"steps"`
	} `json:"cases"`
	URIs []struct {
		URI   string
		Host  string
		Port  int
		Store *string
		Path  string
		Error string
		Says  string
	} `json:"uris"`
}

type step map[string]any

func loadCases(t *testing.T) caseFile {
	t.Helper()
	text := must[[]byte](t)(os.ReadFile("../conformance/cases.json"))
	var cases caseFile
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	ok(t, decoder.Decode(&cases))
	if cases.Format != 1 {
		t.Fatalf("cases of another format: %d", cases.Format)
	}
	return cases
}

func TestURIs(t *testing.T) {
	for _, expected := range loadCases(t).URIs {
		uri, err := ParseURI(expected.URI)
		if expected.Error != "" {
			if err == nil || kindOf(err).String() != expected.Error {
				t.Errorf("%q: %v, not %s", expected.URI, err, expected.Error)
			} else if !strings.Contains(err.Error(), expected.Says) {
				t.Errorf("%q: %v", expected.URI, err)
			} else if strings.Contains(err.Error(), "password") {
				t.Errorf("a message repeats a password: %v", err)
			}
			continue
		}
		store := ""
		if expected.Store != nil {
			store = *expected.Store
		}
		if err != nil || uri != (URI{expected.Host, expected.Port, store, expected.Path}) {
			t.Errorf("%q: %+v, %v", expected.URI, uri, err)
		}
	}
}

func TestConformanceOnFile(t *testing.T) {
	runCases(t, "file", startGateway(t, "file://"+t.TempDir()))
}

func TestConformanceOnKadoop(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	runCases(t, "kadoop", startCommand(t, []string{"up", "--data", data}, nil))
}

func TestConformanceOnHDFS(t *testing.T) {
	named := os.Getenv("STRAIT_TEST_HDFS")
	if named == "" {
		lacks(t, "no HDFS: set STRAIT_TEST_HDFS")
	}
	runCases(t, "hdfs", startGateway(t, named))
}

// runCases runs all cases over each wire.
func runCases(t *testing.T, store string, gateway *gateway) {
	cases := loadCases(t)
	root := uniquePath() // the store may keep the remains of other runs
	wires := map[string]Wire{
		"framed-binary": FramedBinary, "binary": Binary, "framed-compact": FramedCompact, "compact": Compact,
	}
	var passed atomic.Int32
	var mu sync.Mutex
	lacking := map[string]int{}
	t.Run("wires", func(t *testing.T) {
		for name, wire := range wires {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				for number, one := range cases.Cases {
					t.Run(one.Name, func(t *testing.T) {
						run := newCaseRun(t, gateway.address, wire, fmt.Sprintf("%s/%s-%d", root, name, number))
						for _, need := range one.Needs {
							if !run.client.Store().Can(need) {
								mu.Lock()
								lacking[need]++
								mu.Unlock()
								t.Skipf("the store %s declares no %s", store, need)
							}
						}
						run.steps(one.Steps)
						if !t.Failed() {
							passed.Add(1)
						}
					})
				}
			})
		}
	})
	client := dialTest(t, gateway.address, nil)
	if err := client.RemoveAll(context.Background(), root); err != nil && !errors.Is(err, NotFound) {
		t.Error(err)
	}
	summary := fmt.Sprintf("conformance Go %s: %d run", store, passed.Load())
	for _, need := range slices.Sorted(maps.Keys(lacking)) {
		summary += fmt.Sprintf(", %d skipped for lack of %s", lacking[need], need)
	}
	fmt.Println(summary)
	if passed.Load() == 0 {
		t.Error("no case ran")
	}
}

// caseRun is one case, in a directory of its own.
type caseRun struct {
	t         *testing.T
	ctx       context.Context
	address   string
	options   *Options
	directory string
	client    *Client
	readers   map[string]*Reader
	writers   map[string]*Writer
	others    map[string]*Client
	saved     map[string]any
	random    map[string][]byte
}

func newCaseRun(t *testing.T, address string, wire Wire, directory string) *caseRun {
	options := &Options{Wire: wire}
	return &caseRun{
		t: t, ctx: context.Background(), address: address, options: options, directory: directory,
		client:  dialTest(t, address, options),
		readers: map[string]*Reader{}, writers: map[string]*Writer{}, others: map[string]*Client{},
		saved: map[string]any{}, random: map[string][]byte{},
	}
}

// knownKeys of each op beside "op", "error" and "absolute"; another fails the case.
var knownKeys = map[string][]string{
	"write":          {"path", "mode", "bytes", "piece", "permission"},
	"read":           {"path", "expect"},
	"open":           {"file", "path", "mode"},
	"read_next":      {"file", "length", "expect"},
	"read_at":        {"file", "offset", "length", "expect"},
	"append":         {"file", "bytes"},
	"position":       {"file", "expect"},
	"flush":          {"file", "mode"},
	"close":          {"file"},
	"stat":           {"path", "expect"},
	"exists":         {"path", "expect"},
	"list":           {"path", "page", "expect"},
	"mkdirs":         {"path", "permission", "count"},
	"rename":         {"source", "target", "replace"},
	"remove":         {"path", "recursive"},
	"set_attributes": {"path", "permission", "replication", "modified_ms", "accessed_ms"},
	"truncate":       {"path", "length"},
	"concat":         {"path", "sources"},
	"put":            {"path", "name", "bytes", "replace"},
	"locate":         {"path", "offset", "length", "expect"},
	"checksum":       {"path", "other", "expect"},
	"status":         {},
	"request":        {"method", "args", "expect", "save", "client"},
}

func (r *caseRun) steps(steps []step) {
	ok(r.t, r.client.Mkdirs(r.ctx, r.directory, nil))
	defer func() {
		for _, reader := range r.readers {
			_ = reader.Close()
		}
		for _, writer := range r.writers {
			writer.Abandon()
		}
		_ = r.client.RemoveAll(r.ctx, r.directory)
	}()
	for _, one := range steps {
		if wrong := r.step(one); wrong != nil {
			text, _ := json.Marshal(one)
			r.t.Fatalf("%s\n    %v", text, wrong)
		}
	}
}

// step says what is wrong with the outcome of a step.
func (r *caseRun) step(one step) error {
	op := one["op"].(string)
	known, isKnown := knownKeys[op]
	for key := range one {
		if !isKnown || key != "op" && key != "error" && key != "absolute" && !slices.Contains(known, key) {
			return fmt.Errorf("the driver doesn't know %s of %s", key, op)
		}
	}
	err := r.perform(op, one)
	var failure *Error
	if err != nil && !errors.As(err, &failure) {
		return err
	}
	expected, isError := one["error"].(map[string]any)
	if !isError {
		return err
	}
	if failure == nil {
		return errors.New("succeeded")
	}
	kinds, several := expected["kind"].([]any)
	if !several {
		kinds = []any{expected["kind"]}
	}
	if !slices.Contains(kinds, any(failure.Name)) {
		return fmt.Errorf("failed as %s: %w", failure.Name, err)
	}
	if path, named := expected["path"]; named && failure.Path != r.absolute(one, path.(string)) {
		return fmt.Errorf("names the path %q: %w", failure.Path, err)
	}
	return nil
}

func (r *caseRun) perform(op string, one step) error {
	path := r.at(one, "path")
	switch op {
	case "write":
		return r.write(one)
	case "read":
		data, err := r.client.ReadFile(r.ctx, path)
		return r.same(data, one, err)
	case "open":
		return r.open(one)
	case "read_next":
		data := make([]byte, number(one, "length", 0))
		count, err := io.ReadFull(r.readers[one["file"].(string)], data)
		return r.same(data[:count], one, withoutEnd(err))
	case "read_at":
		data := make([]byte, number(one, "length", 0))
		count, err := r.readers[one["file"].(string)].ReadAt(data, number(one, "offset", 0))
		return r.same(data[:count], one, withoutEnd(err))
	case "append":
		_, err := r.writers[one["file"].(string)].Write(r.bytes(one["bytes"]))
		return err
	case "position":
		if got := r.writers[one["file"].(string)].Position(); got != number(one, "expect", 0) {
			return fmt.Errorf("another position: %d", got)
		}
	case "flush":
		writer := r.writers[one["file"].(string)]
		if one["mode"] == "sync" {
			return writer.Sync()
		}
		return writer.Flush()
	case "close":
		return r.close(one["file"].(string))
	case "stat":
		return r.stat(one)
	case "exists":
		exists, err := r.client.Exists(r.ctx, path)
		return contrary(exists, one, err)
	case "list":
		return r.list(one)
	case "mkdirs":
		if one["count"] == nil {
			return r.client.Mkdirs(r.ctx, path, permission(one))
		}
		for n := range number(one, "count", 0) {
			if err := r.client.Mkdirs(r.ctx, fmt.Sprint(path, n), permission(one)); err != nil {
				return err
			}
		}
	case "rename":
		return r.client.Rename(r.ctx, r.at(one, "source"), r.at(one, "target"), one["replace"].(bool))
	case "remove":
		return r.client.remove(r.ctx, path, one["recursive"].(bool))
	case "set_attributes":
		return r.setAttributes(one)
	case "truncate":
		return r.client.Truncate(r.ctx, path, number(one, "length", 0))
	case "concat":
		var sources []string
		for _, source := range one["sources"].([]any) {
			sources = append(sources, r.absolute(one, source.(string)))
		}
		return r.client.Concat(r.ctx, path, sources...)
	case "put":
		local := filepath.Join(r.t.TempDir(), one["name"].(string))
		ok(r.t, os.WriteFile(local, r.bytes(one["bytes"]), 0o644))
		_, err := r.client.Put(r.ctx, local, path, one["replace"] == true)
		return err
	case "locate":
		return r.locate(one)
	case "checksum":
		first, err := r.client.Checksum(r.ctx, path)
		if err != nil {
			return err
		}
		other, err := r.client.Checksum(r.ctx, r.at(one, "other"))
		return contrary(first == other, one, err)
	case "status":
		status, err := r.client.Status(r.ctx)
		if err == nil && (status.Used < 0 || status.Used > status.Capacity ||
			status.Remaining < 0 || status.Remaining > status.Capacity) {
			return fmt.Errorf("beyond the capacity: %+v", status)
		}
		return err
	case "request":
		return r.request(one)
	}
	return nil
}

func (r *caseRun) open(one step) error {
	file, path := one["file"].(string), r.at(one, "path")
	if one["mode"] == "read" {
		reader, err := r.client.Open(r.ctx, path)
		if err == nil {
			r.readers[file] = reader
		}
		return err
	}
	writer, err := r.openWriter(one, path)
	if err == nil {
		r.writers[file] = writer
	}
	return err
}

func (r *caseRun) openWriter(one step, path string) (*Writer, error) {
	switch one["mode"] {
	case "append":
		return r.client.Append(r.ctx, path)
	case "create", "overwrite":
		return r.client.Create(r.ctx, path,
			&CreateOptions{Overwrite: one["mode"] == "overwrite", Permission: permission(one)})
	}
	return nil, fmt.Errorf("an unknown mode: %v", one["mode"])
}

func (r *caseRun) close(file string) error {
	if reader := r.readers[file]; reader != nil {
		delete(r.readers, file)
		return reader.Close()
	}
	writer := r.writers[file]
	delete(r.writers, file)
	return writer.Close()
}

func (r *caseRun) write(one step) error {
	writer, err := r.openWriter(one, r.at(one, "path"))
	if err != nil {
		return err
	}
	defer writer.Abandon()
	data := r.bytes(one["bytes"])
	for piece := range slices.Chunk(data, int(number(one, "piece", int64(max(len(data), 1))))) {
		if _, err := writer.Write(piece); err != nil {
			return err
		}
	}
	return writer.Close()
}

func (r *caseRun) stat(one step) error {
	info, err := r.client.Stat(r.ctx, r.at(one, "path"))
	if err != nil {
		return err
	}
	expect, _ := one["expect"].(map[string]any)
	for key, expected := range expect {
		var got any
		switch key {
		case "type":
			got = map[bool]string{true: "directory", false: "file"}[info.Directory]
		case "length":
			got = json.Number(fmt.Sprint(info.Length))
		case "permission":
			var wanted uint32
			_, _ = fmt.Sscanf(expected.(string), "%o", &wanted)
			got, expected = info.Permission, wanted
		case "replication":
			got = json.Number(fmt.Sprint(info.Replication))
		case "modified_ms":
			got = json.Number(fmt.Sprint(info.Modified.UnixMilli()))
		case "accessed_ms":
			got = json.Number(fmt.Sprint(info.Accessed.UnixMilli()))
		default:
			return fmt.Errorf("the driver doesn't know %s", key)
		}
		if got != expected {
			return fmt.Errorf("%s is %v", key, got)
		}
	}
	return nil
}

func (r *caseRun) list(one step) error {
	var expected, got []string
	switch expect := one["expect"].(type) {
	case map[string]any:
		for n := range number(expect, "count", 0) {
			expected = append(expected, fmt.Sprint(expect["prefix"], n))
		}
	case []any:
		for _, name := range expect {
			expected = append(expected, name.(string))
		}
	}
	for info, err := range r.client.List(r.ctx, r.at(one, "path"), int(number(one, "page", 0))) {
		if err != nil {
			return err
		}
		got = append(got, info.Name())
	}
	slices.Sort(expected)
	slices.Sort(got)
	if !slices.Equal(expected, got) {
		return fmt.Errorf("other names: %v", got)
	}
	return nil
}

func (r *caseRun) locate(one step) error {
	blocks, err := r.client.Locate(r.ctx, r.at(one, "path"), number(one, "offset", 0), number(one, "length", -1))
	if err != nil {
		return err
	}
	expect, _ := one["expect"].(map[string]any)
	if expect["none"] != nil {
		if len(blocks) != 0 {
			return errors.New("there are blocks")
		}
		return nil
	}
	if len(blocks) == 0 || blocks[0].Offset > number(expect, "from", 0) {
		return errors.New("begins too late")
	}
	end := blocks[0].Offset
	for _, block := range blocks {
		if block.Offset != end || block.Length <= 0 || len(block.Hosts) == 0 {
			return errors.New("a gap, or no host")
		}
		end += block.Length
	}
	if end < number(expect, "to", 0) {
		return errors.New("ends too early")
	}
	return nil
}

func (r *caseRun) setAttributes(one step) error {
	attributes := Attributes{Permission: permission(one)}
	if one["replication"] != nil {
		replication := int16(number(one, "replication", 0))
		attributes.Replication = &replication
	}
	if one["modified_ms"] != nil {
		modified, accessed := fromMs(number(one, "modified_ms", 0)), fromMs(number(one, "accessed_ms", 0))
		attributes.Modified, attributes.Accessed = &modified, &accessed
	}
	return r.client.SetAttributes(r.ctx, r.at(one, "path"), attributes)
}

// -- Values

func (r *caseRun) at(one step, key string) string {
	path, _ := one[key].(string)
	return r.absolute(one, path)
}

func (r *caseRun) absolute(one step, path string) string {
	if one["absolute"] == true {
		return path
	}
	return r.directory + path
}

func (r *caseRun) bytes(given any) []byte {
	spec := given.(map[string]any)
	switch {
	case spec["hex"] != nil:
		return must[[]byte](r.t)(hex.DecodeString(spec["hex"].(string)))
	case spec["text"] != nil:
		return []byte(spec["text"].(string))
	case spec["pattern"] != nil:
		return pattern(int(number(spec, "pattern", 0)), int(number(spec, "offset", 0)), int(number(spec, "length", 0)))
	case spec["concat"] != nil:
		var all []byte
		for _, part := range spec["concat"].([]any) {
			all = append(all, r.bytes(part)...)
		}
		return all
	case spec["random"] != nil:
		name := spec["random"].(string)
		if r.random[name] == nil {
			r.random[name] = newRequestID()
		}
		return r.random[name]
	}
	r.t.Fatalf("no bytes: %v", spec)
	return nil
}

func (r *caseRun) same(got []byte, one step, err error) error {
	if err != nil || one["expect"] == nil {
		return err
	}
	expected := r.bytes(one["expect"])
	if !bytes.Equal(got, expected) {
		return fmt.Errorf("%d bytes in place of %d, or other ones", len(got), len(expected))
	}
	return nil
}

func contrary(got bool, one step, err error) error {
	if err == nil && got != one["expect"].(bool) {
		return errors.New("the contrary")
	}
	return err
}

func withoutEnd(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

func number(from map[string]any, key string, otherwise int64) int64 {
	given, isThere := from[key].(json.Number)
	if !isThere {
		return otherwise
	}
	value, err := given.Int64()
	if err != nil {
		panic(err)
	}
	return value
}

func permission(one step) *uint32 {
	digits, isThere := one["permission"].(string)
	if !isThere {
		return nil
	}
	var bits uint32
	_, _ = fmt.Sscanf(digits, "%o", &bits)
	return &bits
}
