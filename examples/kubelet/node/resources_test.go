package node

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// TestLocalStorageIsNoResource where the configuration says so: no pod can be placed by
// what it will not be held to, and its limits do not keep it from running.
func TestLocalStorageIsNoResource(t *testing.T) {
	m := capacity.Machine{CPUs: []int{0}, Memory: 8 << 30, Storage: 100 << 30}
	for _, isolated := range []bool{true, false} {
		k := &kubeletconfig.KubeletConfiguration{LocalStorageCapacityIsolation: &isolated, KubeReserved: map[string]string{"ephemeral-storage": "1Gi"}}
		config.SetDefaults(k)
		r, err := resourcesOf(m, k)
		if err != nil {
			t.Fatal(err)
		}
		for what, list := range map[string]corev1.ResourceList{"capacity": r.Capacity, "allocatable": r.Allocatable} {
			if _, has := list[corev1.ResourceEphemeralStorage]; has != isolated {
				t.Errorf("localStorageCapacityIsolation %t: %s is %v", isolated, what, list)
			}
		}
		if p := (&pressure{ignoresLimits: !isolated}); !p.abilities().Has(podspec.LocalStorage) {
			t.Errorf("localStorageCapacityIsolation %t: pods with limits are refused", isolated)
		}
	}
}

// TestNodeStartsWhereHugePagesLeaveNoMemory has a machine of 16Gi, all but 512Mi of it in
// huge pages: less than is reserved is left. A stock kubelet starts there and offers no
// memory.
func TestNodeStartsWhereHugePagesLeaveNoMemory(t *testing.T) {
	machine := t.TempDir()
	for name, text := range map[string]string{
		"proc/meminfo":              "MemTotal: 16777216 kB\nSwapTotal: 0 kB\n",
		"proc/cpuinfo":              "processor: 0\nprocessor: 1\n",
		"proc/sys/kernel/pid_max":   "32768\n",
		"proc/sys/kernel/osrelease": "6.12.0\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "7936\n",
	} {
		path := filepath.Join(machine, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	settings := &kubeletconfig.KubeletConfiguration{
		KubeReserved: map[string]string{"memory": "730Mi"},
		EvictionHard: map[string]string{"memory.available": "100Mi"},
	}
	var log bytes.Buffer
	n, err := New(Config{
		Kubelet: settings, Name: "node-a", Root: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Machine: capacity.Config{Root: machine, StorageDir: "/"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.readMachine(); err != nil {
		t.Fatalf("the node does not start: %v", err)
	}
	offered := n.resources.p.Load().Allocatable
	if memory := offered[corev1.ResourceMemory]; !memory.IsZero() {
		t.Errorf("memory %s is offered, want none", &memory)
	}
	if pages := offered["hugepages-2Mi"]; pages.String() != "15872Mi" {
		t.Errorf("huge pages of %s are offered, want all of them", &pages)
	}
	want := `resource=memory capacity=16Gi kept="kubeReserved 730Mi + evictionHard 100Mi (memory.available 100Mi) + huge pages 15872Mi (hugepages-2Mi)"`
	if !strings.Contains(log.String(), want) {
		t.Errorf("the log does not explain it, want %s in:\n%s", want, &log)
	}

	n.cfg.Kubelet.KubeReserved["memory"] = "17Gi"
	if err := n.readMachine(); err == nil {
		t.Error("the node starts with more reserved than the machine has")
	}
}
