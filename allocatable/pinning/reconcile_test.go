package pinning

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReconcileTellsWhatHasChanged(t *testing.T) {
	c := newCPUs(t, CPUConfig{Reserve: 1}, smallHT)
	pinned := podOf("u1", "main:2")
	running := []Running{{Pod: "u2", Name: "c0", ID: "a"}, {Pod: "u1", Name: "c0", ID: "b"}}
	var fails error
	told := map[string]string{}
	round := func() map[string]string {
		t.Helper()
		clear(told)
		err := c.Reconcile(t.Context(), running, func(_ context.Context, id string, cpus CPUSet) error {
			told[id] = cpus.String()
			return fails
		})
		if !errors.Is(err, fails) {
			t.Errorf("error %v", err)
		}
		return told
	}
	expect := func(what string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, round()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("all at first", map[string]string{"a": "0-3", "b": "0-3"})
	expect("nothing new", map[string]string{})
	if err := admit(t, c, pinned); err != nil {
		t.Fatal(err)
	}
	fails = errors.New("not now")
	expect("the shared pool is smaller", map[string]string{"a": "0,2", "b": "1,3"})
	fails = nil
	expect("tried again", map[string]string{"a": "0,2", "b": "1,3"})
	running = running[:1]
	expect("one has ended", map[string]string{})
	running = append(running, Running{Pod: "u1", Name: "c0", ID: "b2"})
	expect("its next run", map[string]string{"b2": "1,3"})
	c.Release("u1")
	running = running[:1]
	expect("the shared pool is larger", map[string]string{"a": "0-3"})
}

func TestReconcileStopsWithItsContext(t *testing.T) {
	c := newCPUs(t, CPUConfig{Reserve: 1}, smallHT)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	set := func(context.Context, string, CPUSet) error { calls++; cancel(); return nil }
	if err := c.Reconcile(ctx, []Running{{ID: "a"}, {ID: "b"}}, set); err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	none, err := NewCPUs(CPUConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if err := none.Reconcile(t.Context(), []Running{{ID: "a"}}, set); err != nil || calls != 1 {
		t.Errorf("%d calls without a policy, %v", calls, err)
	}
}
