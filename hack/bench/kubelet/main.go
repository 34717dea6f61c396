// Command kubelet measures the example kubelet beside the stock one, in one run, on
// nodes of one cluster, as ratios. It needs root.
//
//	go run . burst            # many pods at once on real containerds
//	go run . scale -pods 500  # many pods on runtimes that run nothing
//	go run . streams          # a long log, and commands in a container
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
	execs        int
	idle         time.Duration
	runtime      string
	logs         string
	against      cluster.Source
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
		return errors.New("want burst, scale or streams")
	}
	s := settings{against: cluster.Stock}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.IntVar(&s.pods, "pods", map[string]int{"burst": 90, "scale": 500}[args[0]], "number of pods on each node")
	f.IntVar(&s.rounds, "rounds", map[string]int{"burst": 2, "streams": 5}[args[0]], "burst, streams: how often each kubelet is measured, in turns")
	f.IntVar(&s.execs, "execs", 40, "streams: how many commands each round has")
	f.DurationVar(&s.idle, "idle", 2*time.Minute, "scale: how long idle kubelets are watched")
	f.Func("against", `scale: the kubelet to compare with: stock, the path of another build, or none (default "stock")`, func(text string) (err error) {
		s.against, err = cluster.ParseSource(text)
		return err
	})
	f.StringVar(&s.runtime, "runtime", "containerd", "burst, streams: containerd or containerd2")
	f.StringVar(&s.logs, "logs", filepath.Join(os.TempDir(), "nodekit-bench-kubelet"), "folder of the logs")
	switch args[0] {
	case "fakecri": // what scale starts on its nodes
		return fakeRuntime(ctx, args[1:])
	case "burst", "scale", "streams":
	default:
		return fmt.Errorf("unknown benchmark %q, want burst, scale or streams", args[0])
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
	if err == nil {
		err = map[string]func(context.Context) error{"burst": b.burst, "scale": b.scale, "streams": b.streams}[args[0]](ctx)
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
