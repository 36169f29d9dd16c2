package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// ContentResults is what the histories of files' bytes show.
type ContentResults struct {
	files, reads int
	violations   []string
}

var contentOps = []string{"create", "append", "flush", "sync", "close", "reopen", "read", "length"}

// checkContents compares what readers saw of each file with what its writers did: no byte differs,
// nobody sees more than was appended, and nobody misses a byte that was acknowledged, or that
// a reader had seen, before the call.
func checkContents(lines []Line, lag time.Duration) ContentResults {
	files := map[string][]Line{}
	for _, line := range lines {
		if slices.Contains(contentOps, line.Op) {
			files[line.Path] = append(files[line.Path], line)
		}
	}
	results := ContentResults{files: len(files)}
	for file, history := range files {
		results.reads += checkFile(file, history, lag, func(line Line, text string) {
			results.violations = append(results.violations,
				fmt.Sprintf("%s: %s by client %d at %d µs: %s", file, line.Op, line.Client, line.Called, text))
		})
	}
	slices.Sort(results.violations)
	return results
}

// mayLag says whether this is a length that took so long that the store may have given up asking
// for bytes that were flushed just before.
func mayLag(line Line, lag time.Duration) bool {
	took := time.Duration(line.Answered-line.Called) * time.Microsecond
	return line.Op == "length" && took >= lag
}

// checkFile reports one file's violations, and counts what readers saw.
func checkFile(file string, history []Line, lag time.Duration, violates func(Line, string)) (reads int) {
	created := int64(math.MaxInt64)
	for _, line := range history {
		if line.Op == "create" && line.Outcome == ok {
			created = line.Answered
		}
	}
	// The lines that are certain once a write is answered, and those that may be visible once it is called.
	var certain, possible []Line
	for _, line := range history {
		if line.Outcome == ok && line.Op != "append" && line.Op != "create" && !mayLag(line, lag) {
			certain = append(certain, line)
		}
		if line.Op == "append" {
			possible = append(possible, line)
		}
	}
	slices.SortFunc(certain, func(a, b Line) int { return cmp.Compare(a.Answered, b.Answered) })
	for _, line := range history {
		if !slices.Contains([]string{"reopen", "read", "length"}, line.Op) {
			continue
		}
		if line.Outcome == notFound && line.Called > created {
			violates(line, "the file is gone")
		}
		if line.Outcome != ok {
			continue
		}
		reads++
		if line.Damaged {
			violates(line, "other bytes than were written")
		}
		var most int64
		for _, earlier := range possible {
			if earlier.Called < line.Answered {
				most = max(most, earlier.Length)
			}
		}
		if line.Length > most {
			violates(line, fmt.Sprintf("%d bytes, and only %d were appended", line.Length, most))
		}
		if mayLag(line, lag) {
			continue
		}
		for _, earlier := range certain {
			if earlier.Answered >= line.Called {
				break
			}
			if earlier.Length > line.Length {
				violates(line, fmt.Sprintf("%d bytes, after a %s of %d bytes at %d µs", line.Length,
					earlier.Op, earlier.Length, earlier.Answered))
				break
			}
		}
	}
	return reads
}
