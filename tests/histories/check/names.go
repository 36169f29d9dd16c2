package main

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// NameResults is what the histories of names show.
type NameResults struct {
	directories, undecided int
	violations             []string
}

// The names of one directory, and the numbers of their files; 0 where there is none.
const letters = "abcd"

type directory [len(letters)]int64

// The index of a name in its directory.
func index(name string) int { return strings.Index(letters, path.Base(name)) }

// step is the sequential specification: whether this answer is right in this state, and the next
// state. An operation without an answer took effect or not, or comes after all others.
func step(before directory, line Line) (bool, directory) {
	after, name := before, index(line.Path)
	switch line.Op {
	case "stat":
		if line.Outcome == ok {
			return before[name] == line.ID, before
		}
		return before[name] == 0, before
	case "put":
		if before[name] != 0 && !line.Replace {
			return answers(line, alreadyExists), before
		}
		after[name] = line.ID
	case "remove":
		if before[name] == 0 {
			return answers(line, notFound), before
		}
		after[name] = 0
	case "move":
		to := index(line.To)
		if before[name] == 0 {
			return answers(line, notFound), before
		}
		if before[to] != 0 && !line.Replace {
			return answers(line, alreadyExists), before
		}
		after[to], after[name] = before[name], 0
	}
	return answers(line, ok), after
}

func answers(line Line, outcome string) bool {
	return line.Outcome == outcome || line.Outcome == unknown
}

func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return directory{} },
		Step: func(state, input, _ any) (bool, any) {
			return step(state.(directory), input.(Line))
		},
		Hash: func(state any) uint64 {
			hash := uint64(14695981039346656037) // FNV-1a
			for _, id := range state.(directory) {
				hash = (hash ^ uint64(id)) * 1099511628211
			}
			return hash
		},
		DescribeOperation: func(input, _ any) string {
			line := input.(Line)
			text := line.Op + " " + path.Base(line.Path)
			if line.To != "" {
				text += " " + path.Base(line.To)
			}
			return fmt.Sprintf("%s %d replace=%t: %s", text, line.ID, line.Replace, line.Outcome)
		},
	}
}

// checkNames decides whether each directory's history is linearizable. It draws the first one that
// isn't into the picture.
func checkNames(lines []Line, patience time.Duration, picture string) NameResults {
	histories := map[string][]porcupine.Operation{}
	var results NameResults
	for _, line := range lines {
		if !slices.Contains([]string{"stat", "put", "remove", "move"}, line.Op) {
			continue
		}
		if line.Damaged {
			results.violations = append(results.violations,
				fmt.Sprintf("%s has other bytes than any file that was put there (%d µs)", line.Path, line.Answered))
		}
		answered := line.Answered
		if line.Outcome == unknown {
			if line.Op == "stat" {
				continue
			}
			answered = math.MaxInt64
		}
		directory := path.Dir(line.Path)
		histories[directory] = append(histories[directory], porcupine.Operation{
			ClientId: line.Client, Input: line, Call: line.Called, Return: answered,
		})
	}
	results.directories = len(histories)
	for directory, history := range histories {
		switch result, information := porcupine.CheckOperationsVerbose(model(), history, patience); result {
		case porcupine.Unknown:
			results.undecided++
		case porcupine.Illegal:
			results.violations = append(results.violations,
				fmt.Sprintf("%s: no order of its %d operations explains the answers", directory, len(history)))
			if picture != "" && porcupine.VisualizePath(model(), information, picture) == nil {
				results.violations = append(results.violations, "its picture: "+picture)
				picture = ""
			}
		}
	}
	return results
}
