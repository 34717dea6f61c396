package cni

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) {
	if args := os.Getenv("CNI_TEST_AGENT"); args != "" {
		agent(strings.Fields(args))
		return
	}
	leakcheck.Main(m)
}

// agent is what the test binary is when a test runs it to kill it: it adds and
// deletes the containers for ever. The arguments are the directories of the plugins,
// of the state and of the configuration, and then "container=namespace" each.
func agent(args []string) {
	n, err := Load(args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	v, err := New(Config{BinDirs: []string{args[0]}, StateDir: args[1]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	ctx := context.Background() //nolint:forbidigo // the test binary is a program here
	var wg sync.WaitGroup
	for i, pod := range args[3:] {
		wg.Go(func() {
			id, ns, _ := strings.Cut(pod, "=")
			a := Attachment{ContainerID: id, IfName: "eth0", NetNS: ns}
			a.Capabilities.PortMappings = []PortMapping{{HostPort: uint16(9000 + i), ContainerPort: 80}}
			for {
				_, errAdd := v.Add(ctx, n, a)
				if err := v.Del(ctx, n, a); err != nil || errAdd != nil {
					fmt.Fprintln(os.Stderr, errAdd, err)
					os.Exit(1)
				}
			}
		})
	}
	wg.Wait()
}
