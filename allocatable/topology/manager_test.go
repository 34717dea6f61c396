package topology

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// twoProviders have CPUs on both nodes of a machine and a device on node 1.
func twoProviders(t *testing.T, calls *[]string) (cpus, devices *fakeProvider) {
	t.Helper()
	both, one := Hints{"cpu": hintsOf(t, "0 preferred|1 preferred|0,1")}, Hints{"vendor/a": hintsOf(t, "1 preferred")}
	cpus = &fakeProvider{name: "cpus", calls: calls, hints: map[string]Hints{"": both, "init": both, "main": both, "side": both}, fails: map[string]error{}}
	devices = &fakeProvider{name: "devices", calls: calls, hints: map[string]Hints{"": one, "main": one}, fails: map[string]error{}}
	return cpus, devices
}

func TestManagerAdmits(t *testing.T) {
	tests := []struct {
		name   string
		policy Policy
		scope  Scope
		want   []string
	}{
		{name: "no policy", policy: None, want: []string{
			"devices gives init from any", "cpus gives init from any", "devices gives main from any", "cpus gives main from any",
		}},
		{name: "each container", policy: Restricted, scope: PerContainer, want: []string{
			"devices gives init from 0 preferred", "cpus gives init from 0 preferred",
			"devices gives main from 1 preferred", "cpus gives main from 1 preferred",
		}},
		{name: "the pod", policy: SingleNode, scope: PerPod, want: []string{
			"devices gives init from 1 preferred", "cpus gives init from 1 preferred",
			"devices gives main from 1 preferred", "cpus gives main from 1 preferred",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			cpus, devices := twoProviders(t, &calls)
			m, err := New(Config{Machine: machineOf(t, 2), Policy: tt.policy, Scope: tt.scope, Providers: []Provider{devices, cpus}})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Admit(t.Context(), podOf("init", "main")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManagerTakesBackWhatARefusedPodGot(t *testing.T) {
	var calls []string
	cpus, devices := twoProviders(t, &calls)
	cpus.hints["main"] = Hints{"cpu": hintsOf(t, "0 preferred")}
	var decided []Decision
	m, err := New(Config{
		Machine: machineOf(t, 2), Policy: Restricted, Providers: []Provider{devices, cpus},
		Decided: func(_ *corev1.Pod, d Decision) { decided = append(decided, d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Admit(t.Context(), podOf("init", "main"))
	refused, ok := errors.AsType[*AffinityError](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	reason, message := Reason(err)
	if reason != "TopologyAffinityError" || message != "Resources cannot be allocated with Topology locality" {
		t.Errorf("reason %s, message %s", reason, message)
	}
	want := "container main: best nodes are 0,1, of the hints [map[vendor/a:[1 preferred]] map[cpu:[0 preferred]]]"
	if diff := cmp.Diff(want, refused.Explain()); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
	wantCalls := []string{"devices gives init from 0 preferred", "cpus gives init from 0 preferred", "devices releases u1", "cpus releases u1"}
	if diff := cmp.Diff(wantCalls, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if len(decided) != 2 || !decided[0].Admitted || decided[1].Admitted || decided[1].Container != "main" {
		t.Errorf("decided %+v", decided)
	}
}

func TestManagerTellsWhatAProviderSays(t *testing.T) {
	tests := []struct {
		name            string
		err             error
		reason, message string
	}{
		{
			name: "whole cores", err: &SMTError{Requested: 3, PerCore: 2, Available: -1}, reason: "SMTAlignmentError",
			message: "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
		},
		{
			name: "too few cores", err: &SMTError{Requested: 4, PerCore: 2, Available: 2}, reason: "SMTAlignmentError",
			message: "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 2, requested CPUs = 4, CPUs per core = 2",
		},
		{
			name: "anything else", err: errors.New("not enough cpus available to satisfy request: requested=2, available=1"), reason: "UnexpectedAdmissionError",
			message: "Allocate failed due to not enough cpus available to satisfy request: requested=2, available=1, which is unexpected",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []string
			cpus, devices := twoProviders(t, &calls)
			cpus.fails["main"] = tt.err
			m, err := New(Config{Machine: machineOf(t, 2), Providers: []Provider{devices, cpus}})
			if err != nil {
				t.Fatal(err)
			}
			reason, message := Reason(m.Admit(t.Context(), podOf("", "main side")))
			if diff := cmp.Diff([]string{tt.reason, tt.message}, []string{reason, message}); diff != "" {
				t.Errorf("reason and message (-want +got):\n%s", diff)
			}
			want := []string{"devices gives main from any", "cpus gives main from any", "devices releases u1", "cpus releases u1"}
			if diff := cmp.Diff(want, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManagerRestoresWhatRuns(t *testing.T) {
	var calls []string
	cpus, devices := twoProviders(t, &calls)
	cpus.hints["main"] = Hints{"cpu": hintsOf(t, "0 preferred")} // would be refused
	cpus.fails["main"] = errors.New("gone")
	m, err := New(Config{Machine: machineOf(t, 2), Policy: Restricted, Providers: []Provider{devices, cpus}})
	if err != nil {
		t.Fatal(err)
	}
	err = m.Restore(t.Context(), podOf("", "main side"))
	if diff := cmp.Diff("container main: gone", errorText(err)); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	want := []string{
		"devices gives main from 0,1", "cpus gives main from 0,1", "devices gives side from 0 preferred", "cpus gives side from 0 preferred",
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	calls = nil
	m.Release("u1")
	if diff := cmp.Diff([]string{"devices releases u1", "cpus releases u1"}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestNewRefusesMachines(t *testing.T) {
	unmeasured, err := NewMachine([]Node{{ID: 0}, {ID: 1}})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{name: "many nodes without a policy", cfg: Config{Machine: machineOf(t, 9)}},
		{name: "many nodes", cfg: Config{Machine: machineOf(t, 9), Policy: BestEffort}, want: "topology manager policy best-effort: the machine has 9 NUMA nodes, want at most 8; raise max-allowable-numa-nodes"},
		{name: "many are allowed", cfg: Config{Machine: machineOf(t, 9), Policy: BestEffort, Options: Options{MaxNodes: 9}}},
		{name: "no distances", cfg: Config{Machine: unmeasured, Policy: BestEffort, Options: Options{PreferClosest: true}}, want: "topology manager policy option prefer-closest-numa-nodes: the machine does not tell how far its NUMA nodes are"},
		{name: "distances do not matter", cfg: Config{Machine: unmeasured, Policy: BestEffort}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := New(tt.cfg)
			if diff := cmp.Diff(tt.want, errorText(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if err == nil && m.Policy() != tt.cfg.Policy {
				t.Errorf("policy %s", m.Policy())
			}
		})
	}
}
