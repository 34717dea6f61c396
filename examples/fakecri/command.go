package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// notFound is the exit code of a shell for a command that is not there.
const notFound = 127

// runCommand answers the commands that people try first: echo, cat, hostname, env,
// sleep SECONDS, exit CODE, true and false.
func runCommand(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
	args := e.Cmd[1:]
	switch e.Cmd[0] {
	case "true":
		return runtimetest.ExecResult{}
	case "false":
		return runtimetest.ExecResult{Code: 1}
	case "echo":
		return runtimetest.ExecResult{Stdout: strings.Join(args, " ") + "\n"}
	case "cat":
		// A client that went away is the end of its input.
		_, _ = io.Copy(e.Stdout, e.Stdin)
		return runtimetest.ExecResult{}
	case "hostname":
		return runtimetest.ExecResult{Stdout: e.Container.Sandbox.GetHostname() + "\n"}
	case "env":
		var b strings.Builder
		for _, v := range e.Container.Config.GetEnvs() {
			fmt.Fprintf(&b, "%s=%s\n", v.GetKey(), v.GetValue())
		}
		return runtimetest.ExecResult{Stdout: b.String()}
	case "sleep":
		n, err := number(args)
		if err != nil {
			return usage(err)
		}
		return runtimetest.ExecResult{After: time.Duration(n) * time.Second}
	case "exit":
		n, err := number(args)
		if err != nil {
			return usage(err)
		}
		return runtimetest.ExecResult{Code: n}
	}
	return runtimetest.ExecResult{Code: notFound, Stderr: e.Cmd[0] + ": not found\n"}
}

// number is the first argument; none is zero.
func number(args []string) (int32, error) {
	if len(args) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseInt(args[0], 10, 32)
	return int32(n), err
}

func usage(err error) runtimetest.ExecResult {
	return runtimetest.ExecResult{Code: 2, Stderr: err.Error() + "\n"}
}

// greet answers every connection to a port with one line.
func greet(_ context.Context, pod *runtimeapi.PodSandboxConfig, port int32, conn io.ReadWriteCloser) error {
	_, err := fmt.Fprintf(conn, "hello from %s, port %d\n", pod.GetMetadata().GetName(), port)
	return err
}
