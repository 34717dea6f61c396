// Command demo shows nodekit's example kubelet and kube-proxy at work: real
// containers started from manifest files, reached through a virtual IP. It runs
// on a private node (package testnode), says at each step what it does, expects
// and sees, and leaves nothing behind. Run it as root from the repository's root:
//
//	go run ./hack/demo            the whole demonstration
//	KEEP=1 go run ./hack/demo     the same, and the node stays to be looked at
//	go run ./hack/demo -cleanup   removes nodes that were kept
//
// The exit code is 0 when everything was as expected, 1 when something was not,
// and 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodekit-go/nodekit/test/testnode"
)

func main() {
	cleanup := flag.Bool("cleanup", false, "remove the nodes that KEEP=1 left running")
	output := flag.String("o", "text", `output: "text", or "json" for one document at the end`)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "demo: run it as root; it makes a network namespace, mounts and control groups of its own")
		os.Exit(1)
	}
	if *cleanup {
		os.Exit(removeKept(ctx))
	}
	os.Exit(show(ctx, *output))
}

func removeKept(ctx context.Context) int {
	names, err := testnode.Clean(ctx, testnode.KeptToo)
	for _, name := range names {
		fmt.Println("removed", name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(names) == 0 {
		fmt.Println("nothing to remove")
	}
	return 0
}

func show(ctx context.Context, output string) int {
	var text io.Writer
	switch output {
	case "text":
		text = os.Stdout
	case "json":
		text = io.Discard
	default:
		fmt.Fprintf(os.Stderr, "demo: -o %s: must be text or json\n", output)
		return 2
	}
	d := newDemo(text, os.Getenv("KEEP") == "1")
	err := d.run(ctx)
	d.report.finish(err, d.logs)
	if d.kept {
		d.explain()
	}
	if output == "json" {
		if err := d.report.writeJSON(os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	switch {
	case errors.Is(err, errInterrupted):
		return 130
	case err != nil:
		return 1
	}
	return 0
}
