package fs.strait.client;

import java.util.Map;
import java.util.TreeMap;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

/** Prints one line of counts at the end, which a quiet Maven leaves out. */
public final class Summary implements TestExecutionListener {
    private final Map<TestExecutionResult.Status, Integer> counts = new TreeMap<>();
    private int disabled;

    @Override
    public synchronized void executionSkipped(TestIdentifier test, String reason) {
        disabled++;
    }

    @Override
    public synchronized void executionFinished(TestIdentifier test, TestExecutionResult result) {
        // A class fails by itself when it can't be set up.
        if (test.isTest() || result.getStatus() == TestExecutionResult.Status.FAILED) {
            counts.merge(result.getStatus(), 1, Integer::sum);
        }
    }

    @Override
    public synchronized void testPlanExecutionFinished(TestPlan plan) {
        System.out.printf(
                "java: %d passed, %d failed, %d skipped%n",
                counts.getOrDefault(TestExecutionResult.Status.SUCCESSFUL, 0),
                counts.getOrDefault(TestExecutionResult.Status.FAILED, 0),
                counts.getOrDefault(TestExecutionResult.Status.ABORTED, 0) + disabled);
    }
}
