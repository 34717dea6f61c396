package nodestatus_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// resources is what every node in these tests has.
func resources() corev1.ResourceList {
	return corev1.ResourceList{
		"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"),
		"pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("100Gi"),
	}
}

// pressure is a Pressures.
type pressure struct{ memory, disk, pid bool }

func (p pressure) MemoryPressure() bool { return p.memory }
func (p pressure) DiskPressure() bool   { return p.disk }
func (p pressure) PIDPressure() bool    { return p.pid }

func TestConditionsOfAHealthyNode(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	at := metav1.NewTime(now.Truncate(time.Second))
	n, events := nodestatus.Update(&corev1.Node{}, nodestatus.Facts{Status: corev1.NodeStatus{Capacity: resources()}}, now)
	want := []corev1.NodeCondition{
		{Type: "MemoryPressure", Status: "False", Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available", LastHeartbeatTime: at, LastTransitionTime: at},
		{Type: "DiskPressure", Status: "False", Reason: "KubeletHasNoDiskPressure", Message: "kubelet has no disk pressure", LastHeartbeatTime: at, LastTransitionTime: at},
		{Type: "PIDPressure", Status: "False", Reason: "KubeletHasSufficientPID", Message: "kubelet has sufficient PID available", LastHeartbeatTime: at, LastTransitionTime: at},
		{Type: "Ready", Status: "True", Reason: "KubeletReady", Message: "kubelet is posting ready status", LastHeartbeatTime: at, LastTransitionTime: at},
	}
	if diff := cmp.Diff(want, n.Status.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	var reasons []string
	for _, e := range events {
		reasons = append(reasons, e.Reason)
	}
	if diff := cmp.Diff([]string{"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"}, reasons); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestConditionsFlip(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := start.Add(time.Minute)
	facts := nodestatus.Facts{Status: corev1.NodeStatus{Capacity: resources()}}
	tests := []struct {
		name   string
		facts  nodestatus.Facts
		kind   corev1.NodeConditionType
		want   corev1.NodeCondition
		events []nodestatus.Event
	}{
		{
			"nothing", facts, "Ready",
			corev1.NodeCondition{
				Type: "Ready", Status: "True", Reason: "KubeletReady", Message: "kubelet is posting ready status",
				LastHeartbeatTime: metav1.NewTime(later), LastTransitionTime: metav1.NewTime(start),
			},
			nil,
		},
		{
			"not ready", facts.NotReady("container runtime is down", "network state unknown", "container runtime is down"), "Ready",
			corev1.NodeCondition{
				Type: "Ready", Status: "False", Reason: "KubeletNotReady", Message: "[container runtime is down, network state unknown]",
				LastHeartbeatTime: metav1.NewTime(later), LastTransitionTime: metav1.NewTime(later),
			},
			[]nodestatus.Event{{Type: "Normal", Reason: "NodeNotReady", Message: "Node node-a status is now: NodeNotReady"}},
		},
		{
			"memory", facts.UnderPressure(pressure{memory: true}), "MemoryPressure",
			corev1.NodeCondition{
				Type: "MemoryPressure", Status: "True", Reason: "KubeletHasInsufficientMemory", Message: "kubelet has insufficient memory available",
				LastHeartbeatTime: metav1.NewTime(later), LastTransitionTime: metav1.NewTime(later),
			},
			[]nodestatus.Event{{Type: "Normal", Reason: "NodeHasInsufficientMemory", Message: "Node node-a status is now: NodeHasInsufficientMemory"}},
		},
		{
			"disk", facts.UnderPressure(pressure{disk: true}), "DiskPressure",
			corev1.NodeCondition{
				Type: "DiskPressure", Status: "True", Reason: "KubeletHasDiskPressure", Message: "kubelet has disk pressure",
				LastHeartbeatTime: metav1.NewTime(later), LastTransitionTime: metav1.NewTime(later),
			},
			[]nodestatus.Event{{Type: "Normal", Reason: "NodeHasDiskPressure", Message: "Node node-a status is now: NodeHasDiskPressure"}},
		},
		{
			"processes", facts.UnderPressure(pressure{pid: true}), "PIDPressure",
			corev1.NodeCondition{
				Type: "PIDPressure", Status: "True", Reason: "KubeletHasInsufficientPID", Message: "kubelet has insufficient PID available",
				LastHeartbeatTime: metav1.NewTime(later), LastTransitionTime: metav1.NewTime(later),
			},
			[]nodestatus.Event{{Type: "Normal", Reason: "NodeHasInsufficientPID", Message: "Node node-a status is now: NodeHasInsufficientPID"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
			before, _ = nodestatus.Update(before, facts, start)
			before.Status.Conditions = append(before.Status.Conditions, corev1.NodeCondition{Type: "Foreign", Status: "True"})
			after, events := nodestatus.Update(before, tt.facts, later)
			if diff := cmp.Diff(tt.events, events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			var got corev1.NodeCondition
			foreign := false
			for _, c := range after.Status.Conditions {
				if c.Type == tt.kind {
					got = c
				}
				foreign = foreign || c == corev1.NodeCondition{Type: "Foreign", Status: "True"}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
			if !foreign || len(after.Status.Conditions) != 5 {
				t.Errorf("the condition of somebody else was touched: %v", after.Status.Conditions)
			}
			if changed := nodestatus.Changed(before, after); changed != (tt.events != nil) {
				t.Errorf("Changed = %t", changed)
			}
		})
	}
}

func TestNodeWithoutResourcesIsNotReady(t *testing.T) {
	few := resources()
	delete(few, "ephemeral-storage")
	delete(few, "cpu")
	n, _ := nodestatus.Update(&corev1.Node{}, nodestatus.Facts{Status: corev1.NodeStatus{Capacity: few}}, time.Now())
	ready := n.Status.Conditions[len(n.Status.Conditions)-1]
	if want := "missing node capacity for resources: cpu, ephemeral-storage"; ready.Status != "False" || ready.Message != want {
		t.Errorf("Ready is %s with %q, want False with %q", ready.Status, ready.Message, want)
	}
}

// TestNodeWithoutLocalStorage offers none where that is wanted, and is ready.
func TestNodeWithoutLocalStorage(t *testing.T) {
	now := time.Now()
	before, _ := nodestatus.Update(&corev1.Node{}, nodestatus.Facts{Status: corev1.NodeStatus{Capacity: resources()}}, now)
	few := resources()
	delete(few, "ephemeral-storage")
	n, _ := nodestatus.Update(before, nodestatus.Facts{Status: corev1.NodeStatus{Capacity: few}, NoLocalStorage: true}, now)
	if diff := cmp.Diff([]corev1.ResourceList{few, few}, []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable}); diff != "" {
		t.Errorf("capacity and allocatable (-want +got):\n%s", diff)
	}
	if ready := n.Status.Conditions[len(n.Status.Conditions)-1]; ready.Status != "True" {
		t.Errorf("Ready is %s with %q", ready.Status, ready.Message)
	}
}

func TestResourcesOfOthersStay(t *testing.T) {
	n := &corev1.Node{}
	n.Status.Capacity = corev1.ResourceList{"example.com/dongle": resource.MustParse("3"), "hugepages-1Gi": resource.MustParse("2Gi")}
	n.Status.Allocatable = corev1.ResourceList{"example.com/dongle": resource.MustParse("2"), "example.com/gone": resource.MustParse("1")}
	allocatable := resources()
	allocatable["memory"] = resource.MustParse("7Gi")
	got, _ := nodestatus.Update(n, nodestatus.Facts{Status: corev1.NodeStatus{Capacity: resources(), Allocatable: allocatable}}, time.Now())
	wantCapacity := resources()
	wantCapacity["example.com/dongle"] = resource.MustParse("3")
	allocatable["example.com/dongle"] = resource.MustParse("3")
	if diff := cmp.Diff(wantCapacity, got.Status.Capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(allocatable, got.Status.Allocatable); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
}

func TestUnknownFactsStayAsTheyWere(t *testing.T) {
	yes := true
	n := &corev1.Node{Status: corev1.NodeStatus{
		Capacity: resources(), Allocatable: resources(),
		Addresses:       []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.2"}},
		NodeInfo:        corev1.NodeSystemInfo{BootID: "b"},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		Images:          []corev1.ContainerImage{{Names: []string{"a"}}},
		RuntimeHandlers: []corev1.NodeRuntimeHandler{{Name: "runc"}},
		Features:        &corev1.NodeFeatures{SupplementalGroupsPolicy: &yes},
		VolumesInUse:    []corev1.UniqueVolumeName{"v"},
	}}
	got, _ := nodestatus.Update(n, nodestatus.Facts{}, time.Now())
	got.Status.Conditions = nil
	if diff := cmp.Diff(n.Status, got.Status); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestRebootIsTold(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	n.Status.NodeInfo.BootID = "one"
	n.Status.NodeInfo.KubeProxyVersion = "v1" //nolint:staticcheck // it is to be cleared
	facts := nodestatus.Facts{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "two"}}}
	got, events := nodestatus.Update(n, facts, time.Now())
	want := nodestatus.Event{Type: "Warning", Reason: "Rebooted", Message: "Node node-a has been rebooted, boot id: two"}
	if len(events) == 0 || events[0] != want {
		t.Errorf("events %v, want first %v", events, want)
	}
	if v := got.Status.NodeInfo.KubeProxyVersion; v != "" { //nolint:staticcheck // it is to be cleared
		t.Errorf("kubeProxyVersion %q, want it cleared", v)
	}
	if _, events = nodestatus.Update(got, facts, time.Now()); len(events) > 0 {
		t.Errorf("told again: %v", events)
	}
}

func TestMachineWithoutSwap(t *testing.T) {
	none, some := int64(0), int64(1)
	for name, tt := range map[string]struct{ given, want *corev1.NodeSwapStatus }{
		"none":    {&corev1.NodeSwapStatus{Capacity: &none}, nil},
		"unknown": {&corev1.NodeSwapStatus{}, nil},
		"some":    {&corev1.NodeSwapStatus{Capacity: &some}, &corev1.NodeSwapStatus{Capacity: &some}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := nodestatus.Facts{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "b", Swap: tt.given}}}
			got, _ := nodestatus.Update(&corev1.Node{}, facts, time.Now())
			if diff := cmp.Diff(tt.want, got.Status.NodeInfo.Swap); diff != "" {
				t.Errorf("swap (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTopImages(t *testing.T) {
	images := []corev1.ContainerImage{
		{Names: []string{"small"}, SizeBytes: 1},
		{Names: []string{"b"}, SizeBytes: 5},
		{Names: []string{"a"}, SizeBytes: 5},
		{Names: []string{"1", "2", "3", "4", "5", "6"}, SizeBytes: 9},
	}
	tests := []struct {
		name  string
		limit int
		want  []string
	}{
		{"all", -1, []string{"1", "a", "b", "small"}},
		{"two", 2, []string{"1", "a"}},
		{"none", 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, i := range nodestatus.TopImages(images, tt.limit) {
				got = append(got, i.Names[0])
				if len(i.Names) > 5 {
					t.Errorf("image has %d names", len(i.Names))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("images (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHealthInTheKubeletsWords(t *testing.T) {
	now := time.Now()
	well := nodestatus.Health{
		RuntimeReady: now, Listed: now,
		Conditions: []nodestatus.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}},
	}
	with := func(change func(*nodestatus.Health)) nodestatus.Health {
		h := well
		h.Conditions = append([]nodestatus.RuntimeCondition(nil), well.Conditions...)
		change(&h)
		return h
	}
	tests := []struct {
		name string
		h    nodestatus.Health
		want []string
	}{
		{"well", well, nil},
		{"start", nodestatus.Health{}, []string{
			"container runtime status check may not have completed yet", "PLEG is not healthy: pleg has yet to be successful", "network state unknown",
		}},
		{"runtime silent for 29 s", with(func(h *nodestatus.Health) { h.RuntimeReady = now.Add(-29 * time.Second) }), nil},
		{"runtime silent for 30 s", with(func(h *nodestatus.Health) { h.RuntimeReady = now.Add(-30 * time.Second) }), []string{"container runtime is down"}},
		{"lists fail", with(func(h *nodestatus.Health) { h.Listed = now.Add(-185 * time.Second) }), []string{
			"PLEG is not healthy: pleg was last seen active 3m5s ago; threshold is 3m0s",
		}},
		{"no network", with(func(h *nodestatus.Health) {
			h.Conditions[1] = nodestatus.RuntimeCondition{Type: "NetworkReady", Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"}
		}), []string{"container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"}},
		{"runtime not ready", with(func(h *nodestatus.Health) {
			h.Conditions[0] = nodestatus.RuntimeCondition{Type: "RuntimeReady", Reason: "r", Message: "m"}
		}), []string{"container runtime not ready: RuntimeReady=false reason:r message:m"}},
		{"runtime tells nothing", with(func(h *nodestatus.Health) { h.Conditions = h.Conditions[:1] }), []string{
			"container runtime network not ready: the runtime does not tell NetworkReady",
		}},
		{"going down", with(func(h *nodestatus.Health) { h.GoingDown, h.Faults = true, []string{"more"} }), []string{"more", "node is shutting down"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.h.NotReady(now)); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}
