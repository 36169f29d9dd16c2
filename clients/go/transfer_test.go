package strait

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestAFailedGetNamesItsTarget: nobody knows the temporary name.
func TestAFailedGetNamesItsTarget(t *testing.T) {
	ctx := context.Background()
	client := must[*Client](t)(Dial(ctx, "strait://"+sharedGateway(t).address+"/", nil))
	defer func() { _ = client.Close() }()
	writer := must[*Writer](t)(client.Create(ctx, "/a-failed-get", nil))
	ok(t, writer.Close())
	local := filepath.Join(t.TempDir(), "missing", "copy")
	_, err := client.Get(ctx, "/a-failed-get", local, false)
	var named *fs.PathError
	if !errors.As(err, &named) || named.Path != local || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
