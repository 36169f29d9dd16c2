package strait

import (
	"testing"
	"time"
)

// The waits for events, and the pauses that name their reason: the only sleeps of these tests. It is
// the counterpart of the test kit's wait.rs; scripts/sleeps.py rejects sleeps elsewhere.

const (
	// eventDeadline is the longest wait for an event. Only failing tests wait so long.
	eventDeadline = 60 * time.Second
	// pollInterval is short beside a start-up, and long enough to leave the cores free.
	pollInterval = 10 * time.Millisecond
)

// eventually waits until holds says so. After the deadline, the test fails with `what` as the name
// of the condition.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(eventDeadline)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", eventDeadline, what)
		}
		time.Sleep(pollInterval)
	}
}

// pause pauses this goroutine. The reason is for the reader: an event to wait for would be better.
func pause(_ string, duration time.Duration) { time.Sleep(duration) }
