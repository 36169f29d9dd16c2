package main

import (
	"testing"
	"time"
)

// op is a name's operation in directory d, from one moment to another.
func op(called, answered int64, kind, name, outcome string, id int64) Line {
	return Line{Op: kind, Path: "/d/" + name, Called: called, Answered: answered, Outcome: outcome, ID: id}
}

func move(called, answered int64, from, to, outcome string, replace bool) Line {
	line := op(called, answered, "move", from, outcome, 0)
	line.To, line.Replace = "/d/"+to, replace
	return line
}

func TestNames(t *testing.T) {
	put := op(0, 10, "put", "a", ok, 5)
	lost := op(0, 10, "put", "a", unknown, 5)
	cases := []struct {
		name  string
		lines []Line
		good  bool
	}{
		{"a file that was put is there", []Line{put, op(20, 30, "stat", "a", ok, 5)}, true},
		{"a file that was put is missing", []Line{put, op(20, 30, "stat", "a", notFound, 0)}, false},
		{"another file is there", []Line{put, op(20, 30, "stat", "a", ok, 6)}, false},
		{"it may be missing meanwhile", []Line{put, op(5, 6, "stat", "a", notFound, 0)}, true},
		{"it comes and goes", []Line{put, op(1, 2, "stat", "a", ok, 5), op(3, 4, "stat", "a", notFound, 0)}, false},
		{"a lost answer, done", []Line{lost, op(20, 30, "stat", "a", ok, 5)}, true},
		{"a lost answer, not done", []Line{lost, op(20, 30, "stat", "a", notFound, 0)}, true},
		{"a lost answer, done much later",
			[]Line{lost, op(20, 30, "stat", "a", notFound, 0), op(40, 50, "stat", "a", ok, 5)}, true},
		{"a lost answer, done twice", []Line{lost, op(20, 30, "stat", "a", ok, 5),
			op(40, 50, "remove", "a", ok, 0), op(60, 70, "stat", "a", ok, 5)}, false},
		{"two have the name", []Line{put, op(0, 10, "put", "a", ok, 6)}, false},
		{"one of two has the name", []Line{put, op(0, 10, "put", "a", alreadyExists, 6)}, true},
		{"a file under two names", []Line{put, move(20, 30, "a", "b", ok, false),
			op(40, 50, "stat", "a", ok, 5)}, false},
		{"no file at some moment of a replacing move", []Line{put, op(0, 10, "put", "b", ok, 6),
			move(20, 90, "a", "b", ok, true), op(40, 50, "stat", "b", notFound, 0)}, false},
		{"a refused move that was made", []Line{put, op(0, 10, "put", "b", ok, 6),
			move(20, 30, "a", "b", alreadyExists, false), op(40, 50, "stat", "b", ok, 5)}, false},
	}
	for _, one := range cases {
		results := checkNames(one.lines, time.Minute, "")
		if good := len(results.violations) == 0; good != one.good || results.undecided > 0 {
			t.Errorf("%s: %v", one.name, results)
		}
	}
}

func content(called, answered int64, kind string, length int64) Line {
	return Line{Op: kind, Path: "/f", Called: called, Answered: answered, Outcome: ok, Length: length}
}

func TestContents(t *testing.T) {
	appended, flushed := content(0, 1, "append", 100), content(2, 10, "flush", 100)
	created := content(0, 0, "create", 0)
	damaged := content(20, 30, "read", 100)
	damaged.Damaged = true
	gone := content(20, 30, "read", 0)
	gone.Outcome = notFound
	failed := content(2, 10, "flush", 100)
	failed.Outcome = unknown
	cases := []struct {
		name     string
		lines    []Line
		lag time.Duration
		good     bool
	}{
		{"flushed bytes are there", []Line{appended, flushed, content(20, 30, "read", 100)}, time.Hour, true},
		{"flushed bytes are missing", []Line{appended, flushed, content(20, 30, "read", 99)}, time.Hour, false},
		{"bytes while they are flushed", []Line{appended, flushed, content(5, 30, "read", 0)}, time.Hour, true},
		{"more than was appended", []Line{appended, flushed, content(20, 30, "read", 101)}, time.Hour, false},
		{"a failed flush promises nothing", []Line{appended, failed, content(20, 30, "read", 7)}, time.Hour, true},
		{"bytes that a reader saw vanish",
			[]Line{appended, content(2, 3, "read", 50), content(4, 5, "read", 49)}, time.Hour, false},
		{"a writer loses bytes", []Line{appended, flushed, content(20, 30, "reopen", 0)}, time.Hour, false},
		{"a length lags", []Line{appended, flushed, content(20, 30, "length", 0)}, time.Hour, false},
		{"a length may lag", []Line{appended, flushed, content(20, 30, "length", 0)}, 0, true},
		{"other bytes", []Line{appended, flushed, damaged}, time.Hour, false},
		{"no file", []Line{created, appended, gone}, time.Hour, false},
	}
	for _, one := range cases {
		results := checkContents(one.lines, one.lag)
		if good := len(results.violations) == 0; good != one.good {
			t.Errorf("%s: %v", one.name, results)
		}
	}
}
