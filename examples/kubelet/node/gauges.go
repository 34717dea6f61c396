package node

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/podworker"
)

// gauges are the metrics that are counted when somebody asks: what there is now.
type gauges struct {
	node                                                             *Node
	runningPods, runningContainers, desired, active, working, recent *prometheus.Desc
	mirrors, ephemeral, cgroupVersion, resizes                       *prometheus.Desc
}

func newGauges(n *Node) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("kubelet_"+name, help, labels, nil)
	}
	return &gauges{
		node:              n,
		runningPods:       desc("running_pods", "Pods with a running container."),
		runningContainers: desc("running_containers", "Containers by their state.", "container_state"),
		desired:           desc("desired_pods", "Pods that the sources name.", "static"),
		active:            desc("active_pods", "Pods that hold resources.", "static"),
		working:           desc("working_pods", "Pods that the workers know.", "lifecycle", "config", "static"),
		recent:            desc("pleg_last_seen_seconds", "When the runtime was last listed, in seconds of Unix time."),
		mirrors:           desc("mirror_pods", "Pods at the API server that show pods of manifests."),
		ephemeral:         desc("managed_ephemeral_containers", "Ephemeral containers in the pods of this node."),
		cgroupVersion:     desc("cgroup_version", "The version of control groups of the machine."),
		resizes:           desc("pod_in_progress_resizes", "Pods whose resources are being changed."),
	}
}

// Describe names the gauges.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.runningPods, g.runningContainers, g.desired, g.active, g.working, g.recent, g.mirrors, g.ephemeral, g.cgroupVersion, g.resizes} {
		ch <- d
	}
}

// Collect counts.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	a := g.node.agent.get()
	if a == nil || a.snapshot.Load() == nil {
		return
	}
	tell := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	snap := a.snapshot.Load()
	pods, states := 0, map[string]int{"created": 0, "exited": 0, "running": 0, "unknown": 0}
	for _, p := range snap.Pods {
		runs := false
		for _, c := range p.Containers {
			states[stateLabel(c.GetState())]++
			runs = runs || c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
		}
		if runs {
			pods++
		}
	}
	tell(g.runningPods, float64(pods))
	for state, n := range states {
		tell(g.runningContainers, float64(n), state)
	}
	tell(g.recent, float64(snap.Taken.UnixNano())/1e9)
	if a.cluster != nil {
		tell(g.mirrors, float64(a.cluster.shown.Load()))
	}
	if r := g.node.resources.p.Load(); r != nil {
		tell(g.cgroupVersion, cgroupVersion(r.machine.Cgroups))
	}
	g.count(a, tell)
}

// count tells of the pods by who wants them and where they stand.
func (g *gauges) count(a *agent, tell func(*prometheus.Desc, float64, ...string)) {
	desired, active := map[string]int{"": 0, "true": 0}, map[string]int{"": 0, "true": 0}
	static := map[types.UID]string{}
	ephemeral, resizes := 0, 0
	for _, k := range a.catalog.known() {
		ephemeral += len(k.pod.Spec.EphemeralContainers)
		if isResizing(k.status) {
			resizes++
		}
		static[k.pod.UID] = staticLabel(ofManifest(k.pod))
		desired[static[k.pod.UID]]++
	}
	for _, pod := range a.admissions.active() {
		active[staticLabel(ofManifest(pod))]++
	}
	type key struct{ lifecycle, config, static string }
	working := map[key]int{}
	for _, lifecycle := range []string{"sync", "terminating", "terminated"} {
		working[key{lifecycle: lifecycle, config: "runtime_only", static: "unknown"}] = 0
		for _, label := range []string{"", "true"} {
			working[key{lifecycle: lifecycle, config: "desired", static: label}] = 0
			working[key{lifecycle: lifecycle, config: "orphan", static: label}] = 0
		}
	}
	for uid, s := range a.pool.All() {
		label, wanted := static[uid]
		k := key{lifecycle: lifecycle(s.Phase), config: "orphan", static: "unknown"}
		if wanted {
			k.config, k.static = "desired", label
		}
		if k.lifecycle != "" {
			working[k]++
		}
	}
	tell(g.ephemeral, float64(ephemeral))
	tell(g.resizes, float64(resizes))
	for label, n := range desired {
		tell(g.desired, float64(n), label)
	}
	for label, n := range active {
		tell(g.active, float64(n), label)
	}
	for k, n := range working {
		tell(g.working, float64(n), k.lifecycle, k.config, k.static)
	}
}

// cgroupVersion is 2 only where everything is.
func cgroupVersion(c capacity.Cgroups) float64 {
	if c.Mode == capacity.CgroupV2 {
		return 2
	}
	return 1
}

// isResizing reports whether a pod gets other resources at the moment.
func isResizing(st *corev1.PodStatus) bool {
	return slices.ContainsFunc(st.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizeInProgress && c.Status == corev1.ConditionTrue
	})
}

func stateLabel(s runtimeapi.ContainerState) string {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return "created"
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return "running"
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return "exited"
	case runtimeapi.ContainerState_CONTAINER_UNKNOWN:
	}
	return "unknown"
}

// staticLabel is "true" or, as in the kubelet, empty.
func staticLabel(static bool) string {
	if static {
		return "true"
	}
	return ""
}

// lifecycle is what the kubelet calls a phase of a worker, empty for one it does not count.
func lifecycle(p podworker.Phase) string {
	switch p {
	case podworker.Waiting, podworker.Syncing:
		return "sync"
	case podworker.Terminating:
		return "terminating"
	case podworker.Terminated, podworker.Finished:
		return "terminated"
	}
	return ""
}
