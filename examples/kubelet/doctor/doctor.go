package doctor

import (
	"context"
	"fmt"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
)

// Node says where the node is that is looked at. Kubelet is required; the zero value of every
// other field is the usual place.
type Node struct {
	// Kubelet is the configuration with its defaults.
	Kubelet *kubeletconfig.KubeletConfiguration
	// Problems are those of its files.
	Problems []config.Problem
	// Name is the name of the node.
	Name string
	// Kubeconfig is the file with the API server and the node's identity; empty: the node
	// belongs to no cluster.
	Kubeconfig string
	// Root is the directory of the kubelet's data; empty: /var/lib/kubelet.
	Root string
	// CertDir has the certificates that the kubelet got by itself; empty: pki in Root.
	CertDir string
	// CNI is where the runtime looks for networks and plugins, if it does not say.
	CNI CNI
	// Proc and Cgroups are where proc and the cgroups are mounted; empty: /proc and
	// /sys/fs/cgroup.
	Proc, Cgroups string
	// Timeout is for one check; 0: 10 s.
	Timeout time.Duration
}

// CNI is where networks and plugins are.
type CNI struct {
	// ConfDir has the configurations; empty: /etc/cni/net.d.
	ConfDir string
	// BinDirs have the plugins; empty: /opt/cni/bin.
	BinDirs []string
}

// Status is what a check came to.
type Status string

// The results.
const (
	OK      Status = "ok"
	Problem Status = "problem"
	// Skipped: it could not be looked at, for a reason that is no problem itself or is
	// another's finding.
	Skipped Status = "skipped"
)

// Finding is one thing that a check found.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Message says what was found.
	Message string `json:"message"`
	// Advice says what to do about a problem.
	Advice string `json:"advice,omitempty"`
}

// check looks at one thing.
type check struct {
	name string
	look func(ctx context.Context, n *Node, r *report)
}

// checks are all there are, in the order in which they are told: what others depend on
// comes first.
func checks() []check {
	return []check{
		{"configuration", lookAtConfiguration},
		{"kubelet", lookAtKubelet},
		{"runtime", lookAtRuntime},
		{"cgroup driver", lookAtCgroupDriver},
		{"cgroups", lookAtCgroups},
		{"network", lookAtNetwork},
		{"manifests", lookAtManifests},
		{"API server", lookAtAPIServer},
		{"certificates", lookAtCertificates},
		{"clock", lookAtClock},
		{"Node", lookAtNode},
		{"Lease", lookAtLease},
		{"swap", lookAtSwap},
		{"kernel", lookAtKernel},
		{"memory and processes", lookAtMemory},
		{"disks", lookAtDisks},
		{"ports", lookAtPorts},
		{"resolver", lookAtResolver},
		{"cluster DNS", lookAtDNS},
	}
}

// report collects the findings of one check.
type report struct {
	check    string
	findings []Finding
}

func (r *report) ok(format string, args ...any) {
	r.findings = append(r.findings, Finding{Check: r.check, Status: OK, Message: fmt.Sprintf(format, args...)})
}

func (r *report) skip(format string, args ...any) {
	r.findings = append(r.findings, Finding{Check: r.check, Status: Skipped, Message: fmt.Sprintf(format, args...)})
}

// problem says what is wrong, and what to do.
func (r *report) problem(advice, format string, args ...any) {
	r.findings = append(r.findings, Finding{Check: r.check, Status: Problem, Message: fmt.Sprintf(format, args...), Advice: advice})
}

// fine reports whether there is no problem yet.
func (r *report) fine() bool {
	for _, f := range r.findings {
		if f.Status == Problem {
			return false
		}
	}
	return true
}

// withDefaults fills the usual places in.
func (n Node) withDefaults() *Node {
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	set(&n.Root, "/var/lib/kubelet")
	set(&n.CertDir, n.Root+"/pki")
	set(&n.CNI.ConfDir, "/etc/cni/net.d")
	if len(n.CNI.BinDirs) == 0 {
		n.CNI.BinDirs = []string{"/opt/cni/bin"}
	}
	set(&n.Proc, "/proc")
	set(&n.Cgroups, "/sys/fs/cgroup")
	if n.Timeout <= 0 {
		n.Timeout = 10 * time.Second
	}
	return &n
}

// patience is how much longer than its time a check is waited for. What a hung disk keeps
// in the kernel is left behind.
const patience = time.Second

// Examine runs all checks at the same time, and returns what they found, in their order. It
// takes a second longer than the Timeout of the node at most.
func Examine(ctx context.Context, n Node) []Finding {
	return n.withDefaults().examine(ctx, checks())
}

func (n *Node) examine(ctx context.Context, all []check) []Finding {
	results := make([]chan []Finding, len(all))
	for i, c := range all {
		results[i] = make(chan []Finding, 1)
		go func() { results[i] <- n.run(ctx, c) }()
	}
	late := time.NewTimer(n.Timeout + patience)
	defer late.Stop()
	overdue := false
	var findings []Finding
	for i, c := range all {
		if !overdue {
			select {
			case f := <-results[i]:
				findings = append(findings, f...)
				continue
			case <-late.C:
				overdue = true
			}
		}
		select {
		case f := <-results[i]:
			findings = append(findings, f...)
		default:
			r := report{check: c.name}
			r.problem("look for disks and network file systems that hang: df, dmesg", "did not end within %s", n.Timeout)
			findings = append(findings, r.findings...)
		}
	}
	return findings
}

// run runs one check within its time.
func (n *Node) run(ctx context.Context, c check) []Finding {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	r := &report{check: c.name}
	c.look(ctx, n, r)
	return r.findings
}

// Problems counts the problems among findings.
func Problems(findings []Finding) int {
	count := 0
	for _, f := range findings {
		if f.Status == Problem {
			count++
		}
	}
	return count
}
