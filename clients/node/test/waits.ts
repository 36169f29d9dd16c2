// Waits for events, and pauses that name their reason: the only sleeps of these tests.
//
// The counterpart of the test kit's `wait.rs`. `scripts/sleeps.py` rejects sleeps elsewhere.
import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";

/** Longest wait for an event. Only failing tests wait so long. */
const DEADLINE_MS = 60_000;
/** Between two looks: short beside a start-up, and long enough to leave the cores free. */
const PAUSE_MS = 20;

/** Waits until the condition holds; after the deadline, fails with its name. */
export async function eventually(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `not within ${DEADLINE_MS} ms: ${what}`);
    await setTimeout(PAUSE_MS);
  }
}

/** A pause. The reason is for the reader: an event to wait for would be better. */
export async function pause(_reason: string, ms: number): Promise<void> {
  await setTimeout(ms);
}
