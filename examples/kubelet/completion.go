package main

import (
	"fmt"
	"io"

	"github.com/nodekit-go/nodekit/examples/internal/cli"
)

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:  "completion",
		About: "print what completes the command line",
		Usage: "kubelet completion prints what has a shell complete the command line of the kubelet.\n\n" +
			"  source <(kubelet completion bash)\n  source <(kubelet completion zsh)\n  kubelet completion fish | source",
		Words: cli.Shells(),
	}
}

// runCompletion is the command completion.
func runCompletion(args []string, stdout, stderr io.Writer) error {
	rest, err := completionCommand().Parse(args, stderr)
	if err != nil {
		return help(err)
	}
	if len(rest) != 1 {
		return usageError{fmt.Errorf("want one shell of %v, got %d arguments", cli.Shells(), len(rest))}
	}
	script, err := (&options{}).command().Completion(rest[0])
	if err != nil {
		return usageError{err}
	}
	_, err = io.WriteString(stdout, script)
	return err
}
