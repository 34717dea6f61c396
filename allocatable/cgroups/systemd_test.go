//go:build linux

package cgroups_test

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

func slicesOf(s *systemd) *cgroups.Systemd {
	return cgroups.NewSystemd(cgroups.SystemdConfig{Connect: s.connect})
}

func TestSlicesAreStartedSetAndStopped(t *testing.T) {
	s := newSystemd(t)
	slices := slicesOf(s)
	for range 2 { // a second time, all is there already
		if err := slices.Start(t.Context(), "a.slice", []cgroups.Property{{Name: "Wants", Value: []string{"-.slice"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := slices.Set(t.Context(), "a.slice", []cgroups.Property{{Name: "CPUWeight", Value: uint64(20)}}); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"Wants": []string{"-.slice"}, "CPUWeight": uint64(20)}
	if diff := cmp.Diff(want, s.unit("a.slice")); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
	for range 2 { // a second time, it is gone already
		if err := slices.Stop(t.Context(), "a.slice"); err != nil {
			t.Fatal(err)
		}
	}
	calls := []string{
		"StartTransientUnit a.slice", "StartTransientUnit a.slice", "SetUnitProperties a.slice",
		"StopUnit a.slice", "ResetFailedUnit a.slice", "StopUnit a.slice",
	}
	if diff := cmp.Diff(calls, s.log()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestJobsThatFailAreNamed(t *testing.T) {
	s := newSystemd(t)
	s.set(func() { s.result = "timeout" })
	err := slicesOf(s).Start(t.Context(), "a.slice", nil)
	want := &cgroups.JobError{Unit: "a.slice", Result: "timeout"}
	if got, ok := errors.AsType[*cgroups.JobError](err); !ok || *got != *want || !strings.Contains(err.Error(), "start a.slice") {
		t.Errorf("error is %v, want %v", err, want)
	}
	if diff := cmp.Diff([]string{"StartTransientUnit a.slice", "ResetFailedUnit a.slice"}, s.log()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRefusedCallsAreNotRepeated(t *testing.T) {
	s := newSystemd(t)
	s.set(func() { s.refusal = "org.freedesktop.DBus.Error.AccessDenied" })
	slices := slicesOf(s)
	for name, err := range map[string]error{
		"start": slices.Start(t.Context(), "a.slice", nil),
		"set":   slices.Set(t.Context(), "a.slice", nil),
		"stop":  slices.Stop(t.Context(), "a.slice"),
	} {
		if reply, ok := errors.AsType[dbus.Error](err); !ok || reply.Name != "org.freedesktop.DBus.Error.AccessDenied" || !strings.Contains(err.Error(), "a.slice") {
			t.Errorf("%s: error is %v, want the refusal and the slice", name, err)
		}
	}
	if calls := s.log(); len(calls) != 3 {
		t.Errorf("calls are %q, want one of each kind", calls)
	}
}

func TestLostConnectionsAreMadeAgain(t *testing.T) {
	s := newSystemd(t)
	slices := slicesOf(s)
	s.set(func() { s.hangUps = 2 })
	if err := slices.Start(t.Context(), "a.slice", nil); err != nil {
		t.Errorf("after two connections that were lost: %v", err)
	}
	if diff := cmp.Diff([]string{"StartTransientUnit a.slice", "StartTransientUnit a.slice", "StartTransientUnit a.slice"}, s.log()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	s.set(func() { s.hangUps = 100 })
	if err := slices.Set(t.Context(), "a.slice", nil); err == nil {
		t.Error("a bus that always hangs up is no error")
	}
	if n := len(s.log()); n != 4 {
		t.Errorf("%d attempts, want 4", n)
	}
	gone := cgroups.NewSystemd(cgroups.SystemdConfig{Connect: func(context.Context) (*dbus.Conn, error) { return nil, os.ErrNotExist }})
	if err := gone.Set(t.Context(), "a.slice", nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "connect to the system bus") {
		t.Errorf("without a bus the error is %v", err)
	}
}

func TestJobsThatNeverEndAreGivenUp(t *testing.T) {
	s := newSystemd(t)
	s.set(func() { s.mute = true })
	slices := cgroups.NewSystemd(cgroups.SystemdConfig{Connect: s.connect, Timeout: 50 * time.Millisecond})
	if err := slices.Start(t.Context(), "a.slice", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want that of a deadline", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := slicesOf(s).Start(ctx, "b.slice", nil); err == nil {
		t.Error("a call that was called off is no error")
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	s := newSystemd(t)
	slices := slicesOf(s)
	var wg sync.WaitGroup
	for i := range 50 {
		name := "n" + strings.Repeat("x", i) + ".slice"
		wg.Go(func() {
			if err := slices.Start(t.Context(), name, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(s.log()); n != 50 {
		t.Errorf("%d calls, want 50", n)
	}
}

const burstable = "kubepods-burstable"

// TestPodsInSlices has a tree of systemd's on a hierarchy of version 2.
func TestPodsInSlices(t *testing.T) {
	const top = "kubepods.slice"
	const class = top + "/" + burstable + ".slice"
	const group = class + "/" + burstable + "-pod1a_2b.slice"
	m := fakeV2(t)
	writeFile(t, m.Path+"/cpuset.cpus.effective", "0-9\n")
	s := newSystemd(t)
	s.onStart = func(unit string) { startIn(t, m, unit) }
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}, Slices: slicesOf(s), Rules: cgroups.Rules{ReserveMemory: true, PodPids: 99}})
	if got, want := tree.PodsGroup(), "/kubepods.slice"; got != want {
		t.Errorf("PodsGroup = %s, want %s", got, want)
	}
	if err := tree.Setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]byte{0xff, 0x03}, s.unit(top)["AllowedCPUs"]); diff != "" {
		t.Errorf("CPUs of %s (-want +got):\n%s", top, diff)
	}
	if weight := s.unit("kubepods-besteffort.slice")["CPUWeight"]; weight != uint64(1) {
		t.Errorf("weight of BestEffort pods is %v, want 1", weight)
	}
	s.log()
	pod := newPod("1a-2b", corev1.PodQOSBurstable, amounts("cpu", "500m", "memory", "1Gi"), amounts("cpu", "1234m", "memory", "2Gi"))
	if err := tree.EnsurePod(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if got, want := tree.Parent(pod), burstable+"-pod1a_2b.slice"; got != want {
		t.Errorf("parent is %s, want %s", got, want)
	}
	want := map[string]any{
		"Description": "pods of this node: " + burstable + "-pod1a_2b.slice", "Wants": []string{burstable + ".slice"},
		"DefaultDependencies": false, "MemoryAccounting": true, "CPUAccounting": true, "TasksAccounting": true, "IOAccounting": true,
		"CPUWeight": uint64(20), "CPUQuotaPeriodUSec": uint64(100000), "CPUQuotaPerSecUSec": uint64(1240000),
		"MemoryMax": uint64(2 << 30), "TasksMax": uint64(99),
		"MemoryMin": uint64(0), "MemoryLow": uint64(1 << 30), "MemoryHigh": uint64(math.MaxUint64),
	}
	if diff := cmp.Diff(want, s.unit(burstable+"-pod1a_2b.slice")); diff != "" {
		t.Errorf("properties of the pod (-want +got):\n%s", diff)
	}
	// Systemd rounds a quota up to percents, and so do the files.
	if got := files(t, m.Path)[group+"/cpu.max"]; got != "124000 100000" {
		t.Errorf("quota is %q, want 124000 100000", got)
	}
	if pods, err := tree.Pods(); err != nil || len(pods) != 1 || pods[0] != pod.UID {
		t.Errorf("pods are %v (%v), want %s", pods, err, pod.UID)
	}
}

// startIn makes the directory of a slice, as systemd does.
func startIn(t *testing.T, m cgroups.Mount, slice string) {
	t.Helper()
	dir, name := m.Path, strings.TrimSuffix(slice, ".slice")
	for i, r := range name + "-" {
		if r == '-' {
			dir += "/" + name[:i] + ".slice"
		}
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(dir+"/cgroup.controllers", []byte("cpuset cpu memory hugetlb pids\n"), 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestWhatSystemdIsToldOfLimits(t *testing.T) {
	tests := []struct {
		name   string
		limits cgroups.Limits
		v2     bool
		want   []cgroups.Property
	}{
		{name: "nothing is known"},
		{
			name: "nothing is limited", v2: true, limits: cgroups.Limits{CPUShares: 1024, CPUQuota: -1, CPUPeriod: 100000, Memory: -1, Pids: -1},
			want: []cgroups.Property{
				{Name: "CPUWeight", Value: uint64(39)},
				{Name: "CPUQuotaPeriodUSec", Value: uint64(100000)},
				{Name: "CPUQuotaPerSecUSec", Value: uint64(math.MaxUint64)},
				{Name: "MemoryMax", Value: uint64(math.MaxUint64)},
				{Name: "TasksMax", Value: uint64(math.MaxUint64)},
			},
		},
		{
			name:   "version 1",
			limits: cgroups.Limits{CPUShares: 512, CPUQuota: 500, CPUPeriod: 10000, Memory: 1 << 20, Pids: 7, Unified: map[string]string{"memory.low": "1"}},
			want: []cgroups.Property{
				{Name: "CPUShares", Value: uint64(512)},
				{Name: "CPUQuotaPeriodUSec", Value: uint64(10000)},
				{Name: "CPUQuotaPerSecUSec", Value: uint64(50000)},
				{Name: "MemoryLimit", Value: uint64(1 << 20)},
				{Name: "TasksMax", Value: uint64(7)},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, cgroups.PropertiesOf(tt.limits, tt.v2)); diff != "" {
				t.Errorf("properties (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReservedSlices(t *testing.T) {
	s := newSystemd(t)
	for _, name := range []string{"/system.slice", "system", "/any/system.slice"} {
		m := fakeV2(t, "system.slice")
		tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}, Slices: slicesOf(s)})
		if err := tree.EnforceReserved(t.Context(), name, amounts("cpu", "500m", "memory", "1Gi"), false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := s.log(); len(got) != 1 || got[0] != "SetUnitProperties system.slice" {
			t.Errorf("%s: calls are %q, want properties of system.slice alone", name, got)
		}
	}
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{fakeV2(t)}, Slices: slicesOf(s)})
	if err := tree.EnforceReserved(t.Context(), "/system.slice", amounts("cpu", "1"), false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error of a slice that is missing is %v", err)
	}
	want := map[string]any{
		"CPUWeight": uint64(20), "MemoryMax": uint64(1 << 30), "MemoryMin": uint64(1 << 30),
	}
	if diff := cmp.Diff(want, s.unit("system.slice")); diff != "" {
		t.Errorf("properties (-want +got):\n%s", diff)
	}
}

// TestLimitsThatCannotBeSetAreNotInTheBooks of systemd either: it would set them later.
func TestLimitsThatCannotBeSetAreNotInTheBooks(t *testing.T) {
	m := fakeV2(t, "kubepods.slice", "kubepods.slice/kubepods-podu1.slice")
	writeFile(t, m.Path+"/kubepods.slice/kubepods-podu1.slice/memory.current", "9000000\n")
	s := newSystemd(t)
	tree := newTree(t, cgroups.Config{Mounts: []cgroups.Mount{m}, Slices: slicesOf(s)})
	r := amounts("cpu", "1", "memory", "1Mi")
	if err := tree.EnsurePod(t.Context(), newPod("u1", corev1.PodQOSGuaranteed, r, r)); err == nil {
		t.Error("a limit below the use was taken")
	}
	if calls := s.log(); len(calls) > 0 {
		t.Errorf("systemd was asked for %q", calls)
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
