package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/images"
)

// clusterEnvironment is a cluster for the suite test/e2e.
type clusterEnvironment struct {
	*cluster.Cluster
	procs    int
	progress func(string)
}

func startCluster(ctx context.Context, cfg Config, dir string) (environment, error) {
	node, err := nodeConfig(cfg)
	if err != nil {
		return nil, err
	}
	archive, err := images.Suites(ctx, images.Config{Progress: cfg.Progress})
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, cluster.Config{
		Name: "e2e", Logs: filepath.Join(dir, "logs"), Nodes: nodes(cfg), Node: node,
		Images: []string{archive}, Progress: cfg.Progress,
	})
	if err != nil {
		return nil, err
	}
	env := &clusterEnvironment{Cluster: c, procs: cfg.Procs, progress: cfg.Progress}
	err = env.checkPrograms(ctx, node)
	if err == nil {
		err = env.labelZones(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, env.stop(ctx))
	}
	return env, nil
}

// checkPrograms makes sure that the nodes run what the run is said to be of.
func (c *clusterEnvironment) checkPrograms(ctx context.Context, want cluster.NodeConfig) error {
	for _, node := range c.Nodes() {
		err := errors.Join(runs(ctx, node.Kubelet(), want.Kubelet), runs(ctx, node.Proxy(), want.Proxy))
		if err != nil {
			return fmt.Errorf("look what runs on %s: %w", node.NodeName(), err)
		}
	}
	return nil
}

// runs returns an error when the program is not that of the source.
func runs(ctx context.Context, program *cluster.Program, want cluster.Source) error {
	path := string(want)
	if want == cluster.Stock {
		var err error
		if path, err = tool(ctx, program.Name()); err != nil {
			return err
		}
	}
	return isExecutable(program.PID(), path)
}

// isExecutable returns an error when the process does not run the file.
func isExecutable(pid int, path string) error {
	link := fmt.Sprintf("/proc/%d/exe", pid)
	file, err1 := os.Stat(path)
	running, err2 := os.Stat(link)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if !os.SameFile(file, running) {
		name, err := os.Readlink(link)
		return errors.Join(err, fmt.Errorf("process %d runs %s, want %s", pid, name, path))
	}
	return nil
}

// nodes is how many nodes there are: the runtime of somebody else is that of one, whose
// pods other nodes would not know the way to.
func nodes(cfg Config) int {
	if cfg.Kit.Foreign() {
		return 1
	}
	return cfg.Set.Nodes
}

// labelZones spreads the nodes over three zones, as a cloud does.
func (c *clusterEnvironment) labelZones(ctx context.Context) error {
	for i, node := range c.Nodes() {
		const zones = 3
		zone := fmt.Sprintf("topology.kubernetes.io/zone=zone-%d", i%zones)
		if _, err := c.Kubectl(ctx, "", "label", "--overwrite", "node", node.NodeName(), zone); err != nil {
			return fmt.Errorf("put %s into a zone: %w", node.NodeName(), err)
		}
	}
	return nil
}

func nodeConfig(cfg Config) (cluster.NodeConfig, error) {
	runtime, err := cluster.ParseRuntime(cfg.Kit.Runtime)
	return cluster.NodeConfig{
		Kubelet: source(cfg, cfg.Kit.Kubelet, "kubelet"), Proxy: source(cfg, cfg.Kit.Proxy, "kube-proxy"),
		Backend: cfg.Kit.Backend, Runtime: runtime,
	}, err
}

// source says where a program comes from: ours is the one that the run began with.
func source(cfg Config, whose conformance.Whose, name string) cluster.Source {
	if whose == conformance.Ours {
		return cluster.Source(filepath.Join(cfg.Programs, name))
	}
	return cluster.Stock
}

func (c *clusterEnvironment) stop(ctx context.Context) error { return c.Stop(ctx) }

func (c *clusterEnvironment) versions(ctx context.Context) ([]string, error) {
	version, err := c.Node(0).CRI().Runtime.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return nil, fmt.Errorf("ask the runtime for its version: %w", err)
	}
	return []string{version.GetRuntimeName() + " " + version.GetRuntimeVersion()}, nil
}

func (c *clusterEnvironment) run(ctx context.Context, dir string, specs []string, add func(conformance.Result) error) ([]string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	args, err := c.arguments(ctx, dir, specs)
	if err != nil {
		return nil, err
	}
	cmd := c.Plane().Command(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	return suiteRun{dir: dir, specs: specs, add: add, progress: c.progress}.run(ctx, cmd)
}

// arguments is the command line of Ginkgo and the suite.
func (c *clusterEnvironment) arguments(ctx context.Context, dir string, specs []string) ([]string, error) {
	ginkgo, err := tool(ctx, "ginkgo")
	if err != nil {
		return nil, err
	}
	kubectl, err := tool(ctx, "kubectl")
	if err != nil {
		return nil, err
	}
	suite, err := suiteProgram(ctx, conformance.E2E, dir)
	if err != nil {
		return nil, err
	}
	return append(ginkgoArguments(ginkgo, dir, specs, c.procs), suite, "--",
		"--kubeconfig="+c.Kubeconfig(), "--kubectl-path="+kubectl, "--provider=skeleton", "--disable-log-dump",
		"--allowed-not-ready-nodes=-1", "--minStartupPods=-1", "--system-pods-startup-timeout=5s",
		"--report-dir="+dir, "--num-nodes="+strconv.Itoa(len(c.Nodes())),
	), nil
}
