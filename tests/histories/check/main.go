// Checks histories: go run . [-lag DURATION] FILE...
//
// The names of a directory must be linearizable (Herlihy and Wing, 1990): each operation seems to
// happen at one moment between its call and its answer. Porcupine decides that. The bytes of a file
// must be those that its writers wrote, and no acknowledged one may be missing.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"
)

// Line is an operation of a client, or a fault. Times are microseconds from the beginning.
type Line struct {
	Client   int    `json:"client"`
	Op       string `json:"op"`
	Path     string `json:"path"`
	To       string `json:"to"`
	ID       int64  `json:"id"`
	Replace  bool   `json:"replace"`
	Length   int64  `json:"length"`
	Damaged  bool   `json:"damaged"`
	Called   int64  `json:"called"`
	Answered int64  `json:"answered"`
	Outcome  string `json:"outcome"`
	Message  string `json:"message"`
}

const (
	ok            = "ok"
	notFound      = "NotFound"
	alreadyExists = "AlreadyExists"
	unknown       = "unknown"
)

// patience with one directory. Its history is undecided if that is too short.
const patience = time.Minute

func read(path string) ([]Line, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []Line
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line Line
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(lines)+1, err)
		}
		lines = append(lines, line)
	}
	return lines, scanner.Err()
}

// check prints what it found, and returns whether the history has no violation and is decided.
func check(lines []Line, lag time.Duration, picture string) bool {
	operations, unanswered, faults := 0, 0, map[string]int{}
	for _, line := range lines {
		if line.Op == "fault" {
			faults[line.Outcome+" "+line.Path]++
			continue
		}
		operations++
		if line.Outcome == unknown {
			unanswered++
		}
	}
	fmt.Printf("%d operations, %d of them with unknown outcomes\n", operations, unanswered)
	kinds := make([]string, 0, len(faults))
	for kind := range faults {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		fmt.Printf("  %s: %d times\n", kind, faults[kind])
	}
	names := checkNames(lines, patience, picture)
	fmt.Printf("names: %d directories, %d undecided, %d not linearizable\n",
		names.directories, names.undecided, len(names.violations))
	contents := checkContents(lines, lag)
	fmt.Printf("contents: %d files, %d reads and lengths, %d violations\n",
		contents.files, contents.reads, len(contents.violations))
	for _, violation := range append(names.violations, contents.violations...) {
		fmt.Println("  " + violation)
	}
	return names.undecided == 0 && len(names.violations)+len(contents.violations) == 0 &&
		names.directories > 0 && contents.files > 0
}

func main() {
	lag := flag.Duration("lag", time.Hour,
		"the length of an open file may lag behind flushes if it took so long: 2s for Kadoop, 0 for HDFS")
	flag.Parse()
	good := flag.NArg() > 0
	for _, path := range flag.Args() {
		lines, err := read(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		fmt.Println(path)
		good = check(lines, *lag, path+".html") && good
	}
	if !good {
		os.Exit(1)
	}
}
