package strait

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheQuickStartRuns: in a module of its own, which has this one from a directory.
func TestTheQuickStartRuns(t *testing.T) {
	readme := string(must[[]byte](t)(os.ReadFile("README.md")))
	program := block(t, readme, "go")
	expected := block(t, readme, "text")
	here := must[string](t)(filepath.Abs("."))
	directory := t.TempDir()
	address := "strait://" + sharedGateway(t).address + "/"
	program = strings.Replace(program, "strait://127.0.0.1:9090/", address, 1)
	ok(t, os.WriteFile(filepath.Join(directory, "main.go"), []byte(program), 0o600))
	run := func(arguments ...string) string {
		command := exec.Command("go", arguments...)
		command.Dir = directory
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off")
		said, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", arguments, err, said)
		}
		return string(said)
	}
	run("mod", "init", "example")
	module := "github.com/strait-fs/strait/clients/go"
	run("mod", "edit", "-require", module+"@v0.0.0", "-replace", module+"="+here)
	// A store's message may begin with a capital letter.
	if got := run("run", "."); !strings.EqualFold(got, expected) {
		t.Errorf("it prints\n%s", got)
	}
}

func block(t *testing.T, readme, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindStringSubmatch(readme)
	if found == nil {
		t.Fatalf("README.md has no block of %s", language)
	}
	return found[1]
}
