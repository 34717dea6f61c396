package logs_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/runtime/logs"
)

// The last line of a container's log, after the log was rotated.
func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "pods")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(root)
	file := logs.File{Root: root, Path: "default_web_0b1c/app/0.log"}
	reopen := fakeRuntime(file, "2026-01-02T15:04:05Z stdout F hello\n2026-01-02T15:04:06Z stdout F world\n")

	rotated, err := logs.Rotate(ctx, file, logs.Policy{MaxSize: 10}, reopen)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("rotated:", rotated)

	last := int64(1)
	if err := logs.Copy(ctx, os.Stdout, file, logs.Options{Tail: &last, Timestamps: true}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// rotated: true
	// 2026-01-02T15:04:06.000000000Z world
}

// fakeRuntime writes a log and returns what makes a new file for it. With a real one
// that is runtime.Client.ReopenContainerLog.
func fakeRuntime(file logs.File, text string) (reopen func(context.Context) error) {
	if err := os.MkdirAll(filepath.Dir(file.String()), 0o755); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(file.String(), []byte(text), 0o640); err != nil {
		log.Fatal(err)
	}
	return func(context.Context) error { return os.WriteFile(file.String(), nil, 0o640) }
}
