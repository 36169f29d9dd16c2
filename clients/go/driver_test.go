package strait

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// driverVariable makes this test program a driver.
const driverVariable = "STRAIT_GO_DRIVER"

// TestSharedFaults runs the faults that every client language runs: clients/conformance/README.md
// has their rules.
func TestSharedFaults(t *testing.T) {
	python := "../../.venv/bin/python"
	if !isFile(python) {
		lacks(t, "no Python in .venv")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	runner := exec.CommandContext(ctx, python, "../../tests/languages/shared_faults.py",
		"env", driverVariable+"=1", must[string](t)(os.Executable()))
	runner.Env = append(os.Environ(), "STRAIT_BIN="+command(t))
	output, err := runner.CombinedOutput()
	fmt.Print(string(output))
	ok(t, err)
}

// A driver answers the requests of tests/languages/driver.py that faults consist of.
type driver struct {
	client  *Client
	clients map[string]*Client
	readers map[string]*Reader
	writers map[string]*Writer
}

func drive(source io.Reader, target io.Writer) error {
	d := driver{clients: map[string]*Client{}, readers: map[string]*Reader{}, writers: map[string]*Writer{}}
	input, output := bufio.NewReader(source), bufio.NewWriter(target)
	for {
		parts, err := readParts(input)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		results, err := d.answer(parts[0], parts[1:])
		answer := append([]string{"ok"}, results...)
		var failure *Error
		if errors.As(err, &failure) {
			answer = []string{"error", failure.Name, failure.Path, err.Error(), fmt.Sprintf("%T %v", err, failure.Kind)}
		} else if err != nil {
			return err
		}
		writeParts(output, answer)
		if err := output.Flush(); err != nil {
			return err
		}
	}
}

func readParts(source io.Reader) ([]string, error) {
	var count, length uint32
	if err := binary.Read(source, binary.BigEndian, &count); err != nil {
		return nil, err
	}
	parts := make([]string, count)
	for n := range parts {
		if err := binary.Read(source, binary.BigEndian, &length); err != nil {
			return nil, err
		}
		part := make([]byte, length)
		if _, err := io.ReadFull(source, part); err != nil {
			return nil, err
		}
		parts[n] = string(part)
	}
	return parts, nil
}

func writeParts(target io.Writer, parts []string) {
	_ = binary.Write(target, binary.BigEndian, uint32(len(parts)))
	for _, part := range parts {
		_ = binary.Write(target, binary.BigEndian, uint32(len(part)))
		_, _ = io.WriteString(target, part)
	}
}

func (d *driver) answer(operation string, given []string) ([]string, error) {
	ctx := context.Background()
	switch operation {
	case "connect":
		options := &Options{Timeout: time.Duration(digits(given[2])) * time.Millisecond}
		client, err := Dial(ctx, given[1], options)
		if err != nil {
			return nil, err
		}
		d.client, d.clients[given[0]] = client, client
		return []string{strings.Join(client.Store().Capabilities, ",")}, nil
	case "use":
		d.client = d.clients[given[0]]
		return nil, nil
	case "disconnect":
		return nil, d.clients[given[0]].Close()
	case "open":
		return nil, d.open(given[0], given[1], given[2])
	case "read":
		data := make([]byte, max(digits(given[1]), 0))
		if given[1] == "-1" {
			all, err := io.ReadAll(d.readers[given[0]])
			return []string{string(all)}, err
		}
		count, err := io.ReadFull(d.readers[given[0]], data)
		return []string{string(data[:count])}, withoutEnd(err)
	case "pread":
		data := make([]byte, digits(given[2]))
		count, err := d.readers[given[0]].ReadAt(data, digits(given[1]))
		return []string{string(data[:count])}, withoutEnd(err)
	case "write":
		_, err := d.writers[given[0]].Write([]byte(given[1]))
		return nil, err
	case "flush":
		return nil, d.writers[given[0]].Flush()
	case "close":
		if reader := d.readers[given[0]]; reader != nil {
			return nil, reader.Close()
		}
		return nil, d.writers[given[0]].Close()
	case "stat":
		info, err := d.client.Stat(ctx, given[0])
		if err != nil {
			return nil, err
		}
		return []string{
			map[bool]string{true: "directory", false: "file"}[info.Directory], fmt.Sprint(info.Length),
			fmt.Sprint(info.Permission), fmt.Sprint(info.Replication),
			fmt.Sprint(info.Modified.UnixMilli()), fmt.Sprint(info.Accessed.UnixMilli()),
		}, nil
	case "exists":
		exists, err := d.client.Exists(ctx, given[0])
		return []string{map[bool]string{true: "1", false: "0"}[exists]}, err
	case "list":
		var names []string
		for info, err := range d.client.List(ctx, given[0], int(digits(given[1]))) {
			if err != nil {
				return nil, err
			}
			names = append(names, info.Name())
		}
		return names, nil
	case "mkdirs":
		return nil, d.client.Mkdirs(ctx, given[0], nil)
	case "rename":
		return nil, d.client.Rename(ctx, given[0], given[1], given[2] == "1")
	case "remove":
		return nil, d.client.remove(ctx, given[0], given[1] == "1")
	}
	return nil, fmt.Errorf("no operation %s", operation)
}

func (d *driver) open(name, path, mode string) (err error) {
	ctx := context.Background()
	switch mode {
	case "read":
		d.readers[name], err = d.client.Open(ctx, path)
	case "append":
		d.writers[name], err = d.client.Append(ctx, path)
	default:
		d.writers[name], err = d.client.Create(ctx, path, &CreateOptions{Overwrite: mode == "overwrite"})
	}
	return err
}

// digits is 0 for none.
func digits(text string) int64 {
	number, _ := strconv.ParseInt(text, 10, 64)
	return number
}
