package nodestatus_test

import (
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

func TestNewNode(t *testing.T) {
	r := nodestatus.Registration{
		Hostname: "host-a", Labels: map[string]string{"zone": "b"}, ProviderID: "cloud://1", Unschedulable: true,
		Taints:        []corev1.Taint{{Key: "k", Value: "v", Effect: "NoExecute"}},
		CloudProvider: true, ControllerAttach: true,
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "node-a",
			Labels: map[string]string{
				"kubernetes.io/hostname": "host-a", "kubernetes.io/os": goruntime.GOOS, "kubernetes.io/arch": goruntime.GOARCH,
				"beta.kubernetes.io/os": goruntime.GOOS, "beta.kubernetes.io/arch": goruntime.GOARCH, "zone": "b",
			},
			Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "cloud://1", Unschedulable: true,
			Taints: []corev1.Taint{
				{Key: "k", Value: "v", Effect: "NoExecute"},
				{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"},
			},
		},
	}
	if diff := cmp.Diff(want, r.Node("node-a")); diff != "" {
		t.Errorf("Node (-want +got):\n%s", diff)
	}
	if got := (nodestatus.Registration{}).Node("node-a"); got.Labels["kubernetes.io/hostname"] != "node-a" || got.Spec.Taints != nil || got.Annotations != nil {
		t.Errorf("Node of an empty Registration: %+v", got)
	}
}

// A Node that exists belongs to those who changed it: a restart of the agent sets right
// only what the kubelet sets right.
func TestReconcileOfANodeThatExists(t *testing.T) {
	existing := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name: "node-a",
				Labels: map[string]string{
					"kubernetes.io/hostname": "other", "kubernetes.io/os": goruntime.GOOS, "kubernetes.io/arch": goruntime.GOARCH,
					"beta.kubernetes.io/os": goruntime.GOOS, "beta.kubernetes.io/arch": goruntime.GOARCH, "team": "x", "zone": "mine",
				},
				Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true", "a": "b"},
			},
			Spec: corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "t", Effect: "NoSchedule"}}},
			Status: corev1.NodeStatus{
				Capacity:    corev1.ResourceList{"cpu": resource.MustParse("4"), "example.com/dongle": resource.MustParse("3")},
				Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3"), "example.com/dongle": resource.MustParse("2")},
			},
		}
	}
	tests := []struct {
		name string
		r    nodestatus.Registration
		want func(*corev1.Node)
	}{
		{
			"labels of the configuration and taints are not set again",
			nodestatus.Registration{
				ControllerAttach: true, Labels: map[string]string{"zone": "b", "new": "c", "topology.kubernetes.io/zone": "z"},
				Taints: []corev1.Taint{{Key: "new", Effect: "NoExecute"}},
			},
			func(n *corev1.Node) {
				n.Labels["kubernetes.io/hostname"] = "node-a"
				n.Labels["topology.kubernetes.io/zone"] = "z"
			},
		},
		{
			"volumes are attached from here",
			nodestatus.Registration{Hostname: "other"},
			func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} },
		},
		{
			"devices were forgotten",
			nodestatus.Registration{Hostname: "other", ControllerAttach: true, ResetDevices: true},
			func(n *corev1.Node) {
				zero := *resource.NewQuantity(0, resource.DecimalSI)
				n.Status.Capacity["example.com/dongle"], n.Status.Allocatable["example.com/dongle"] = zero, zero
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			old, want := existing(), existing()
			tt.want(want)
			if diff := cmp.Diff(want, tt.r.Reconcile("node-a", old)); diff != "" {
				t.Errorf("Node (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(existing(), old); diff != "" {
				t.Errorf("the Node that was given is changed (-want +got):\n%s", diff)
			}
		})
	}
	bare := nodestatus.Registration{ResetDevices: true}.Reconcile("node-a", &corev1.Node{})
	if bare.Labels["kubernetes.io/os"] == "" {
		t.Error("a bare Node has no labels after it")
	}
}

func TestLabels(t *testing.T) {
	tests := []struct {
		in   string
		want map[string]string
		err  string
	}{
		{"", map[string]string{}, ""},
		{"a=b, c=,", map[string]string{"a": "b", "c": ""}, ""},
		{"example.com/x=y,node.kubernetes.io/x=1,x.kubelet.kubernetes.io/y=2,topology.kubernetes.io/zone=z", map[string]string{
			"example.com/x": "y", "node.kubernetes.io/x": "1", "x.kubelet.kubernetes.io/y": "2", "topology.kubernetes.io/zone": "z",
		}, ""},
		{"a", map[string]string{"a": ""}, ""},
		{"a=b,a = c ,d", map[string]string{"a": "c", "d": ""}, ""},
		{"=b", nil, `key ""`},
		{"a=b c", nil, `label a=b c: value "b c"`},
		{"-=1", nil, `key "-"`},
		{"node-role.kubernetes.io/worker=", nil, "label node-role.kubernetes.io/worker=: kubelets may not set it"},
		{"node-restriction.kubernetes.io/x=", nil, "kubelets may not set it"},
		{"foo.k8s.io/x=", nil, "kubelets may not set it"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := nodestatus.ParseLabels(tt.in)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTaints(t *testing.T) {
	tests := []struct {
		in   string
		want []corev1.Taint
		err  string
	}{
		{"", nil, ""},
		{"a=b:NoSchedule,c:NoExecute", []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "c", Effect: "NoExecute"}}, ""},
		{"a=b:NoSchedule,a=c:NoExecute", []corev1.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}, {Key: "a", Value: "c", Effect: "NoExecute"}}, ""},
		{"a", nil, `taint "a" has no effect`},
		{"a:Never", nil, `effect "Never", want NoSchedule, PreferNoSchedule or NoExecute`},
		{"=b:NoSchedule", nil, `key ""`},
		{"a=b:NoSchedule,a=c:NoSchedule", nil, "is there twice"},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			got, err := nodestatus.ParseTaints(tt.in)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q in it", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzFlags(f *testing.F) {
	for _, s := range []string{"", "a=b", "a=b:NoSchedule", "a:NoExecute,b:NoSchedule", "a=b,node.kubernetes.io/x=", "::1,10.0.0.1", "=:,"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if labels, err := nodestatus.ParseLabels(s); err == nil {
			if err := nodestatus.CheckLabels(labels); err != nil {
				t.Errorf("labels of %q: %v", s, err)
			}
		}
		if taints, err := nodestatus.ParseTaints(s); err == nil {
			for _, taint := range taints {
				again, err := nodestatus.ParseTaints(taint.ToString())
				if err != nil || len(again) != 1 || again[0] != taint {
					t.Errorf("taint %v of %q is read again as %v, %v", taint, s, again, err)
				}
			}
		}
		if ips, err := nodestatus.ParseNodeIPs(s); err == nil && len(ips) > 2 {
			t.Errorf("%d addresses of %q", len(ips), s)
		}
	})
}
