package soak

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
)

// meter counts what a node has. It looks with other eyes than those of the programs under
// test: the kernel's files, the runtime's lists, nft.
type meter struct {
	node    *cluster.Node
	api     kubernetes.Interface
	backend string
	adopted bool // The runtime is somebody else's.
	client  *http.Client
}

func newMeter(node *cluster.Node, api kubernetes.Interface, cfg *Config) *meter {
	return &meter{
		node: node, api: api, backend: cfg.Backend, adopted: strings.Contains(string(cfg.Runtime), "/"),
		client: &http.Client{Timeout: askLimit, Transport: &http.Transport{DialContext: patiently(node.Node), DisableKeepAlives: true}},
	}
}

// askLimit is how long an answer may take. It is for machines with much else to do.
const askLimit = time.Minute

// count counts everything but the heaps.
func (m *meter) count(ctx context.Context) (Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	c := Counts{}
	for _, part := range []func(context.Context, Counts) error{
		m.countRuntime, m.countFiles, m.countCgroups, m.countRules, m.countProcesses,
	} {
		if err := part(ctx, c); err != nil {
			return nil, fmt.Errorf("count what the node has: %w", err)
		}
	}
	return c, nil
}

func (m *meter) countRuntime(ctx context.Context, c Counts) error {
	sandboxes, err := m.node.CRI().Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := m.node.CRI().Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	c[Sandboxes], c[Containers] = int64(len(sandboxes.GetItems())), int64(len(containers.GetContainers()))
	return nil
}

// countFiles counts files as the kubelet sees them, by its root in /proc.
func (m *meter) countFiles(_ context.Context, c Counts) error {
	root, logs, err := m.folders()
	if err != nil {
		return err
	}
	counted := []struct {
		measure Measure
		dir     string
		deep    bool
	}{
		{PodFolders, filepath.Join(root, "pods"), false},
		{KubeletFiles, root, true},
		{LogFolders, logs, false},
		{LogLinks, filepath.Join(filepath.Dir(logs), "containers"), false},
		{Addresses, m.node.Dir("ipam"), true},
	}
	for _, f := range counted {
		if c[f.measure], err = countBelow(f.dir, f.deep); err != nil {
			return err
		}
	}
	return nil
}

// folders returns the kubelet's root folder and that of the pods' logs, as we see them.
func (m *meter) folders() (root, logs string, err error) {
	pid := m.node.Kubelet().PID()
	if pid == 0 {
		return "", "", errors.New("find the kubelet's folders: it does not run")
	}
	if m.adopted {
		return m.node.KubeletRoot(), m.node.PodLogs(), nil
	}
	seen := fmt.Sprintf("/proc/%d/root", pid)
	return filepath.Join(seen, "var/lib/kubelet"), filepath.Join(seen, "var/log/pods"), nil
}

// countBelow counts what is in a folder, or in the whole tree. What is not there has
// nothing in it.
func countBelow(dir string, deep bool) (int64, error) {
	n := int64(-1) // The folder itself is none of what is in it.
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
		n++
		if !deep && path != dir && entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count files: %w", err)
	}
	return max(n, 0), nil
}

// cgroupBase is where the hierarchies of control groups are, with version 1 one for each
// controller, with version 2 one in all.
const cgroupBase = "/sys/fs/cgroup"

func (m *meter) countCgroups(_ context.Context, c Counts) error {
	roots, err := filepath.Glob(filepath.Join(cgroupBase, "*", m.node.CgroupRoot()))
	if err != nil {
		return fmt.Errorf("find control groups: %w", err)
	}
	for _, root := range append(roots, filepath.Join(cgroupBase, m.node.CgroupRoot())) {
		n, err := countFolders(root)
		if err != nil {
			return err
		}
		c[Cgroups] += n
	}
	return nil
}

func countFolders(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("count folders: %w", err)
	}
	return n, nil
}

func (m *meter) countRules(ctx context.Context, c Counts) error {
	rules, err := m.rules(ctx)
	maps.Copy(c, rules)
	return err
}

// rules counts what kube-proxy and others wrote into the kernel.
func (m *meter) rules(ctx context.Context) (Counts, error) {
	if m.backend == "iptables" {
		saved, err := m.node.Command(ctx, "iptables-save").Output()
		if err != nil {
			return nil, fmt.Errorf("save rules: %w", err)
		}
		return countSaved(saved), nil
	}
	list, err := m.node.Command(ctx, "nft", "-j", "list", "ruleset").Output()
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	return countRuleset(list)
}

func (m *meter) countProcesses(ctx context.Context, c Counts) error {
	kubelet, proxy := m.node.Kubelet().PID(), m.node.Proxy().PID()
	if kubelet == 0 || proxy == 0 {
		return errors.New("the kubelet or kube-proxy ended")
	}
	c[KubeletPID], c[ProxyPID] = int64(kubelet), int64(proxy)
	err := errors.Join(
		readProcess(c, kubelet, KubeletFiledes, KubeletMemory),
		readProcess(c, proxy, ProxyFiledes, ProxyMemory),
		readLines(c, kubelet, "mountinfo", KubeletMounts),
		readLines(c, kubelet, "net/dev", Links),
	)
	if runtime := m.node.Containerd(); runtime != nil {
		err = errors.Join(err, readLines(c, runtime.PID(), "mountinfo", RuntimeMounts))
	}
	if err != nil {
		return err
	}
	return m.profile(ctx, "goroutine", func(program string, text []byte) error {
		n, err := goroutinesIn(text)
		c[Measure("goroutines of "+program)] = n
		return err
	})
}

// readProcess reads how many descriptors and how much memory a process has.
func readProcess(c Counts, pid int, descriptors, memory Measure) error {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return fmt.Errorf("list file descriptors: %w", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Errorf("read the status of a process: %w", err)
	}
	c[descriptors] = int64(len(open))
	c[memory], err = anonymousIn(status)
	return err
}

// readLines counts the lines of a file of a process.
func readLines(c Counts, pid int, file string, measure Measure) error {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		return fmt.Errorf("read about a process: %w", err)
	}
	c[measure] = int64(strings.Count(string(data), "\n"))
	return nil
}

// heaps reads how much of the heaps is live, after a collection.
func (m *meter) heaps(ctx context.Context, c Counts) error {
	return m.profile(ctx, "heap", func(program string, text []byte) error {
		n, err := heapIn(text)
		c[Measure("live heap of "+program)] = n
		return err
	})
}

// The programs as the measures call them.
const (
	theKubelet = "the kubelet"
	theProxy   = "kube-proxy"
)

// profile reads a profile of both programs, that of the heap after a collection.
func (m *meter) profile(ctx context.Context, name string, use func(program string, text []byte) error) error {
	var kubelet []byte
	err := ask(ctx, func(ctx context.Context) (err error) {
		kubelet, err = m.api.CoreV1().RESTClient().Get().
			AbsPath("/api/v1/nodes", m.node.NodeName(), "proxy/debug/pprof", name).
			Param("debug", "1").Param("gc", "1").DoRaw(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("read profile %s of the kubelet: %w", name, err)
	}
	proxy, err := get(ctx, m.client, "http://127.0.0.1:10249/debug/pprof/"+name+"?debug=1&gc=1")
	if err != nil {
		return fmt.Errorf("read profile %s of kube-proxy: %w", name, err)
	}
	return errors.Join(use(theKubelet, kubelet), use(theProxy, proxy))
}
