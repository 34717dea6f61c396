// Command kubelet measures the example kubelet beside the stock one, in one run, on
// nodes of one cluster, as ratios. It needs root.
//
//	go run . burst            # many pods at once on real containerds
//	go run . scale -pods 500  # many pods on runtimes that run nothing
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/test/cluster"
)

// settings are the flags.
type settings struct {
	pods, rounds int
	idle         time.Duration
	runtime      string
	logs         string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want burst or scale")
	}
	var s settings
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.IntVar(&s.pods, "pods", map[string]int{"burst": 90, "scale": 500}[args[0]], "number of pods on each node")
	f.IntVar(&s.rounds, "rounds", 2, "burst: how often each kubelet starts them, in turns")
	f.DurationVar(&s.idle, "idle", 2*time.Minute, "scale: how long idle kubelets are watched")
	f.StringVar(&s.runtime, "runtime", "containerd", "burst: containerd or containerd2")
	f.StringVar(&s.logs, "logs", filepath.Join(os.TempDir(), "nodekit-bench-kubelet"), "folder of the logs")
	switch args[0] {
	case "fakecri": // what scale starts on its nodes
		return fakeRuntime(ctx, args[1:])
	case "burst", "scale":
	default:
		return fmt.Errorf("unknown benchmark %q, want burst or scale", args[0])
	}
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if err := toRoot(); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Name: "bench", Logs: s.logs, NoWait: true,
		Progress: func(line string) { fmt.Fprintln(os.Stderr, line) },
	})
	if err != nil {
		return err
	}
	b, err := newBench(c, s)
	if err == nil && args[0] == "burst" {
		err = b.burst(ctx)
	} else if err == nil {
		err = b.scale(ctx)
	}
	return errors.Join(err, c.Stop(ctx))
}

// toRoot goes to the root of the repository, where the programs are built.
func toRoot() error {
	for range 4 {
		if _, err := os.Stat("hack/tool.sh"); err == nil {
			return nil
		}
		if err := os.Chdir(".."); err != nil {
			return err
		}
	}
	return errors.New("run this in the repository")
}
