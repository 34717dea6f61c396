package pinning

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/topology"
)

func TestCPUsOfPods(t *testing.T) {
	tests := []struct {
		name       string
		shape      stockShape
		cfg        CPUConfig
		pod        string
		want       string
		reason     string
		wantShared string
	}{
		{name: "a whole core", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "main:2", want: "c0=1,3", wantShared: "0,2"},
		{name: "a part of a CPU", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "main:500m", want: "c0=shared", wantShared: "0-3"},
		{name: "more than one and a part", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "main:1500m", want: "c0=shared", wantShared: "0-3"},
		{name: "one of two", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "main:1 main:250m", want: "c0=2 c1=shared", wantShared: "0-1,3"},
		{name: "too many", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "main:4", want: "c0=shared", reason: "UnexpectedAdmissionError", wantShared: "0-3"},
		{name: "nothing stays after the second fails", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "main:2 main:2", want: "c0=shared c1=shared", reason: "UnexpectedAdmissionError", wantShared: "0-3"},
		{name: "named reserved CPUs", shape: smallHT, cfg: CPUConfig{Reserved: NewCPUSet(1, 3)}, pod: "main:2", want: "c0=0,2", wantShared: "1,3"},
		{name: "an init container's are used again", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "init:3 main:2", want: "c0=1-3 c1=1,3", wantShared: "0"},
		{name: "a sidecar keeps its own", shape: smallHT, cfg: CPUConfig{Reserve: 1}, pod: "side:1 main:2", want: "c0=2 c1=1,3", wantShared: "0"},
		{name: "a sidecar uses an init container's", shape: smallHT, cfg: CPUConfig{Reserve: 2}, pod: "init:2 side:1 main:1", want: "c0=1,3 c1=1 c2=3", wantShared: "0,2"},
		{name: "half a core", shape: smallHT, cfg: CPUConfig{Reserve: 2, Options: CPUOptions{FullCores: true}}, pod: "main:1", want: "c0=shared", reason: "SMTAlignmentError", wantShared: "0-3"},
		{name: "the sibling of a reserved CPU is no core", shape: smallHT, cfg: CPUConfig{Reserve: 1, Options: CPUOptions{FullCores: true}}, pod: "main:2 main:2", want: "c0=shared c1=shared", reason: "SMTAlignmentError", wantShared: "0-3"},
		{name: "whole cores are used again", shape: smallHT, cfg: CPUConfig{Reserve: 2, Options: CPUOptions{FullCores: true}}, pod: "init:2 main:2", want: "c0=1,3 c1=1,3", wantShared: "0,2"},
		{name: "a strict reservation", shape: smallHT, cfg: CPUConfig{Reserve: 1, Options: CPUOptions{StrictReservation: true}}, pod: "main:2", want: "c0=1,3", wantShared: "2"},
		{name: "a strict reservation of all that is left", shape: smallHT, cfg: CPUConfig{Reserve: 1, Options: CPUOptions{StrictReservation: true}}, pod: "main:3", want: "c0=1-3", wantShared: "0"},
		{name: "different cores", shape: twoSockets, cfg: CPUConfig{Reserve: 2, Options: CPUOptions{DistributeAcrossCores: true}}, pod: "main:3", want: "c0=2-3,8", wantShared: "0-1,4-7,9-15"},
		{name: "over two nodes", shape: fourNodes, cfg: CPUConfig{Reserve: 1, Options: CPUOptions{DistributeAcrossNUMA: true}}, pod: "main:6", want: "c0=4-6,8-10", wantShared: "0-3,7,11-15"},
		{name: "one cache", shape: manyCaches, cfg: CPUConfig{Reserve: 2, Options: CPUOptions{AlignByCache: true}}, pod: "main:8", want: "c0=4-7,20-23", wantShared: "0-3,8-19,24-31"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newCPUs(t, tt.cfg, tt.shape)
			pod := podOf("u1", tt.pod)
			err := admit(t, c, pod)
			reason := ""
			if err != nil {
				reason, _ = topology.Reason(err)
			}
			got := []string{told(c, pod), reason, c.Shared().String()}
			if diff := cmp.Diff([]string{tt.want, tt.reason, tt.wantShared}, got); diff != "" {
				t.Errorf("CPUs, reason, shared (-want +got):\n%s\n%v", diff, err)
			}
			c.Release(pod.UID)
			if shared := c.Shared(); !shared.Equal(c.usable()) {
				t.Errorf("after the end of the pod %s are shared", shared)
			}
		})
	}
}

func TestCPUsAreNotForOtherPods(t *testing.T) {
	c := newCPUs(t, CPUConfig{Reserve: 1}, smallHT)
	burstable := podOf("u1", "main:2")
	c.cfg.Class = func(*corev1.Pod) corev1.PodQOSClass { return corev1.PodQOSBurstable }
	if err := admit(t, c, burstable); err != nil || told(c, burstable) != "c0=shared" {
		t.Errorf("Burstable: %s, %v", told(c, burstable), err)
	}
	c.cfg.Class = guaranteed
	whole := podOf("u2", "main:2")
	whole.Spec.Resources = &corev1.ResourceRequirements{Limits: quantities(map[corev1.ResourceName]string{"cpu": "3", "memory": "1Gi"})}
	if err := admit(t, c, whole); err != nil || told(c, whole) != "c0=shared" {
		t.Errorf("with resources of the whole pod: %s, %v", told(c, whole), err)
	}
	if hints := c.Hints(topology.Request{Pod: whole}); hints != nil {
		t.Errorf("hints %v", hints)
	}
}

func TestCPUsSurviveARestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), CPUFile)
	c := newCPUs(t, CPUConfig{Reserve: 1, File: file}, twoSockets)
	one, two := podOf("u1", "init:2 main:4"), podOf("u2", "side:1 main:2")
	if err := errors.Join(admit(t, c, one), admit(t, c, two)); err != nil {
		t.Fatal(err)
	}
	again := newCPUs(t, CPUConfig{Reserve: 1, File: file}, twoSockets)
	if diff := cmp.Diff([]string{told(c, one), told(c, two), c.Shared().String()}, []string{told(again, one), told(again, two), again.Shared().String()}); diff != "" {
		t.Errorf("after a restart (-before +after):\n%s", diff)
	}
	before := told(again, one)
	if err := admit(t, again, one); err != nil || told(again, one) != before {
		t.Errorf("admitted again the pod has %s, %v; it had %s", told(again, one), err, before)
	}
	again.Retain(func(uid types.UID) bool { return uid == "u2" })
	if again.Pins("u1") || !again.Pins("u2") {
		t.Error("the pod that is gone has CPUs, or the other one has none")
	}
	if last := newCPUs(t, CPUConfig{Reserve: 1, File: file}, twoSockets); last.Pins("u1") || !last.Shared().Equal(again.Shared()) {
		t.Errorf("after another restart %s are shared, %s before", last.Shared(), again.Shared())
	}
}

func TestCPUsRefuseAFileOfAnotherMachine(t *testing.T) {
	tests := []struct {
		name  string
		cfg   CPUConfig
		shape stockShape
		want  string
	}{
		{name: "another machine", cfg: CPUConfig{Reserve: 1}, shape: fourNodes, want: `it is about CPUs 0-3, the machine has 0-15`},
		{name: "more is reserved", cfg: CPUConfig{Reserve: 3}, shape: smallHT, want: `of the reserved CPUs 0-2 only 0,2 are shared`},
		{name: "strictly now", cfg: CPUConfig{Reserve: 1, Options: CPUOptions{StrictReservation: true}}, shape: smallHT, want: `of the strictly reserved CPUs 0 are shared`},
		{name: "another policy", cfg: CPUConfig{Policy: None}, shape: smallHT, want: `it was written under policy "static", the configuration says "none"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), CPUFile)
			if err := admit(t, newCPUs(t, CPUConfig{Reserve: 1, File: file}, smallHT), podOf("u1", "main:2")); err != nil {
				t.Fatal(err)
			}
			cfg := tt.cfg
			cfg.File, cfg.Layout, cfg.Class = file, tt.shape.layout(t), guaranteed
			if tt.name != "another policy" {
				cfg.Policy = Static
			}
			_, err := NewCPUs(cfg)
			want := "CPU manager: " + file + " is of no use here: " + tt.want + "; drain the node and remove the file"
			if diff := cmp.Diff(want, errorText(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewCPUsNeedsAReservation(t *testing.T) {
	tests := []struct {
		name string
		cfg  CPUConfig
		want string
	}{
		{name: "nothing", want: "CPU manager: the static policy needs CPUs that are reserved; set cpu in kubeReserved or systemReserved, or reservedSystemCPUs"},
		{name: "too much", cfg: CPUConfig{Reserve: 5}, want: "CPU manager: reserve CPUs: not enough cpus available to satisfy request: requested=5, available=4"},
		{name: "what is not there", cfg: CPUConfig{Reserved: NewCPUSet(0, 9)}, want: "CPU manager: CPUs 9 are reserved, but the machine has 0-3 online"},
		{name: "options that exclude each other", cfg: CPUConfig{Reserve: 1, Options: CPUOptions{FullCores: true, DistributeAcrossCores: true}}, want: "CPU manager: CPU manager policy options full-pcpus-only and distribute-cpus-across-cores exclude each other"},
		{name: "by socket on one node", cfg: CPUConfig{Reserve: 1, Options: CPUOptions{AlignBySocket: true}, Topology: topology.SingleNode}, want: "CPU manager: CPU manager policy option align-by-socket excludes the topology manager policy single-numa-node"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := tt.cfg
			cfg.Policy, cfg.Layout, cfg.Class = Static, smallHT.layout(t), guaranteed
			_, err := NewCPUs(cfg)
			if diff := cmp.Diff(tt.want, errorText(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutAPolicyNothingIsPinned(t *testing.T) {
	file := filepath.Join(t.TempDir(), CPUFile)
	for range 2 { // the second one reads the file
		c, err := NewCPUs(CPUConfig{File: file})
		if err != nil {
			t.Fatal(err)
		}
		pod := podOf("u1", "main:2")
		if err := admit(t, c, pod); err != nil {
			t.Fatal(err)
		}
		if cpus, exclusive := c.Of("u1", "c0"); exclusive || !cpus.IsEmpty() || !c.Allocatable().IsEmpty() {
			t.Errorf("CPUs %s, exclusive %v, allocatable %s", cpus, exclusive, c.Allocatable())
		}
	}
}

func TestCPUsThatCannotBeNotedAreNotGiven(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := newCPUs(t, CPUConfig{Reserve: 1, File: filepath.Join(dir, CPUFile)}, smallHT)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	pod := podOf("u1", "main:2")
	if err := admit(t, c, pod); err == nil {
		t.Error("no error")
	}
	if told(c, pod) != "c0=shared" || c.Shared().Len() != 4 {
		t.Errorf("the pod has %s, shared are %s", told(c, pod), c.Shared())
	}
}

func TestTotals(t *testing.T) {
	var answers []CPUAnswer
	c := newCPUs(t, CPUConfig{Reserve: 1, Asked: func(a CPUAnswer) { answers = append(answers, a) }}, twoSockets)
	if err := admit(t, c, podOf("u1", "main:2 main:500m")); err != nil {
		t.Fatal(err)
	}
	if err := admit(t, c, podOf("u2", "main:99")); err == nil {
		t.Error("a pod gets more CPUs than there are")
	}
	want := CPUTotals{Shared: 13, Exclusive: 2, ByNode: map[int]int{0: 2, 1: 0}}
	if diff := cmp.Diff(want, c.Totals()); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if len(answers) != 2 || answers[0].CPUs.Len() != 2 || !answers[0].OneCache || answers[1].Err == nil {
		t.Errorf("answers %+v", answers)
	}
	if all := c.Allocatable(); all.Len() != 15 || all.Has(0) {
		t.Errorf("allocatable %s", all)
	}
}
