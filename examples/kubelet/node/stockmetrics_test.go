package node

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/runtime/server/stats"
	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// facts are the lines of a file of testdata: so many words, of which the last is the rest.
func facts(t *testing.T, name string, columns int) [][]string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]string
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.SplitN(line, " ", columns)
		if len(words) != columns {
			t.Fatalf("%s: line %q has %d words, want %d", name, line, len(words), columns)
		}
		out = append(out, words)
	}
	return out
}

// TestMetricsAreThoseOfAStockKubelet has each metric of a stock kubelet here, under its name
// and with its labels, or a reason why not.
func TestMetricsAreThoseOfAStockKubelet(t *testing.T) {
	ours := ownMetrics(t)
	differences := facts(t, "metrics-differences.txt", 3)
	used := map[string]bool{}
	excused := func(page, name string) bool {
		for _, d := range differences {
			prefix, several := strings.CutSuffix(d[1], "*")
			if d[0] == page && (name == d[1] || several && strings.HasPrefix(name, prefix)) {
				used[d[0]+" "+d[1]] = true
				return true
			}
		}
		return false
	}
	for _, f := range facts(t, "stock-metrics.txt", 4) {
		page, name, want := f[0], f[1], f[3]
		got, ok := ours[page+" "+name]
		switch {
		case !ok && strings.HasPrefix(name, "container_network_") && noLinks(t):
		case !ok && !excused(page, name):
			t.Errorf("%s has no %s, which a stock kubelet has", page, name)
		case ok && got != want:
			t.Errorf("%s: %s has the labels %s, want those of a stock kubelet: %s", page, name, got, want)
		}
	}
	for _, d := range differences {
		if !used[d[0]+" "+d[1]] && !strings.HasPrefix(d[2], "told by others") {
			t.Errorf("the difference %s %s is none any more", d[0], d[1])
		}
	}
}

// noLinks reports whether this machine has no interface that could be told of.
func noLinks(t *testing.T) bool {
	t.Helper()
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(list, func(i net.Interface) bool {
		return i.Flags&net.FlagLoopback == 0 && !strings.HasPrefix(i.Name, "veth") && !strings.HasPrefix(i.Name, "docker")
	})
}

// ownMetrics are the metrics of a node, with their labels.
func ownMetrics(t *testing.T) map[string]string {
	t.Helper()
	n, err := New(Config{Kubelet: &kubeletconfig.KubeletConfiguration{}, Name: "node-a", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	described(t, "/metrics", n.cfg.metrics.registry, out)
	described(t, "/metrics/probes", n.cfg.metrics.probes.registry, out)
	c, err := stats.New(stats.Config{
		Node: "node-a", Groups: full{}, Machine: newMachineFacts(n).describe,
		Pods: func() []stats.Pod {
			return []stats.Pod{{
				UID: "1", Namespace: "default", Name: "web", Created: time.Now(), Sandbox: "s", Group: "/pod1",
				Containers: []stats.Container{{ID: "c", Name: "main", Created: time.Now()}},
			}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.readMachine(); err != nil {
		t.Fatal(err)
	}
	for page, families := range map[string][]stats.Family{"/metrics/resource": c.Resource(t.Context()), "/metrics/cadvisor": c.Containers(t.Context())} {
		for _, f := range families {
			out[page+" "+f.Name] = labelList(f.Labels)
		}
	}
	return out
}

// desc finds name and labels in the text of a description, which has no other way to them.
var desc = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: .*, constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// described notes what a registry has, with and without values.
func described(t *testing.T, page string, r *prometheus.Registry, out map[string]string) {
	t.Helper()
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		r.Describe(ch)
	}()
	for d := range ch {
		m := desc.FindStringSubmatch(d.String())
		if m == nil {
			t.Errorf("description %s is not understood", d)
			continue
		}
		var labels []string
		for pair := range strings.SplitSeq(m[2], ",") {
			if name, _, ok := strings.Cut(pair, "="); ok {
				labels = append(labels, name)
			}
		}
		if m[3] != "" {
			labels = append(labels, strings.Split(m[3], ",")...)
		}
		out[page+" "+m[1]] = labelList(labels)
	}
}

func labelList(labels []string) string {
	if len(labels) == 0 {
		return "-"
	}
	labels = slices.Clone(labels)
	slices.Sort(labels)
	return strings.Join(labels, ",")
}

// full are control groups of which everything is known.
type full struct{}

func (full) Usage(string) (cgroupstat.Usage, error) { return cgroupstat.Usage{Time: time.Now()}, nil }

func (f full) Detail(string) (cgroupstat.Detail, error) {
	u, err := f.Usage("")
	return cgroupstat.Detail{Usage: u, Shares: 2, Quota: time.Second, Period: time.Second, Disks: []cgroupstat.Disk{{Major: 8}}}, err
}

func (full) Pressure(string) (cgroupstat.Pressure, error) {
	return cgroupstat.Pressure{CPU: &cgroupstat.Stall{}, Memory: &cgroupstat.Stall{}, IO: &cgroupstat.Stall{}}, nil
}

func (full) Children(group string) ([]string, error) {
	return []string{fmt.Sprintf("%s/s", group), fmt.Sprintf("%s/c", group)}, nil
}

func (full) Processes(string) ([]int, error) { return []int{os.Getpid()}, nil }
