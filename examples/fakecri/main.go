// Command fakecri is a container runtime that runs nothing: it serves CRI v1 on a unix
// socket from memory, for crictl, kubelets and whatever else talks with a runtime.
//
//	fakecri --socket /tmp/cri.sock
//	crictl --runtime-endpoint unix:///tmp/cri.sock pods
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/runtime/runtimetest/streaming"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "fakecri:", err)
		os.Exit(1)
	}
}

// run is the program; it returns when a signal or an error ends it.
func run(args []string, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	return serve(ctx, o, stderr)
}

// serve serves until ctx ends.
func serve(ctx context.Context, o *options, stderr io.Writer) (err error) {
	if err := removeStale(o.socket); err != nil {
		return err
	}
	s, err := runtimetest.New(runtimetest.Config{
		Socket:  o.socket,
		Images:  o.imageList(),
		Script:  o.script,
		Exec:    runCommand,
		Forward: greet,
	})
	if err != nil {
		return err
	}
	defer s.Close()
	streams, err := streaming.New(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, streams.Close()) }()
	if err := s.Up(); err != nil {
		return err
	}
	fmt.Fprintf(stderr, "fakecri: serving CRI v1 on unix://%s\n", o.socket)
	<-ctx.Done()
	return nil
}

// removeStale removes the socket that an earlier run left. What is no socket stays.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there and is no socket", path)
	}
	return os.Remove(path)
}
