package shutdown_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
)

// diary is what happened, with seconds since the start.
type diary struct {
	start time.Time
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%2d ", int(time.Since(d.start)/time.Second))+fmt.Sprintf(format, args...))
}

func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "\n") + "\n"
}

// manage runs a Manager with pods that take as long to end as lives says.
func manage(t *testing.T, source shutdown.Source, pods []*corev1.Pod, lives map[string]time.Duration, change func(*shutdown.Config)) (*shutdown.Manager, *diary) {
	t.Helper()
	d := &diary{start: time.Now()}
	cfg := shutdown.Config{
		Periods: shutdown.Periods(30*time.Second, 10*time.Second),
		Pods:    func() []*corev1.Pod { return pods },
		Kill: func(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
			d.add("kill %s %s", pod.Name, grace)
			timer := time.NewTimer(min(lives[pod.Name], grace))
			defer timer.Stop()
			if lives[pod.Name] < 0 {
				timer.Stop()
			}
			select {
			case <-timer.C:
				d.add("%s has ended", pod.Name)
				return nil
			case <-ctx.Done():
				d.add("%s is left behind", pod.Name)
				return ctx.Err()
			}
		},
		Changed: func(down bool) { d.add("down %t", down) },
		Flush: func(context.Context) error {
			d.add("flush")
			return nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	m, err := shutdown.New(source, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return m, d
}

func TestPodsEndByGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trigger := shutdown.NewTrigger()
		state := filepath.Join(t.TempDir(), "state")
		m, d := manage(t, trigger, []*corev1.Pod{pod("dns", 2_000_000_000, 5), pod("slow", 0, 60), pod("web", 0, 3)},
			map[string]time.Duration{"dns": 2 * time.Second, "slow": time.Minute, "web": time.Second},
			func(c *shutdown.Config) { c.StateFile = state })
		pass(10 * time.Second)
		if m.Down() {
			t.Error("down before anybody said so")
		}
		trigger.Pull()
		<-trigger.Released()
		d.add("released")
		want := `10 down true
10 kill slow 20s
10 kill web 3s
11 web has ended
30 slow has ended
30 kill dns 5s
32 dns has ended
32 flush
32 released
`
		got := strings.NewReplacer("10 kill web 3s\n10 kill slow 20s\n", "10 kill slow 20s\n10 kill web 3s\n", "slow is left behind", "slow has ended").Replace(d.text())
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("diary (-want +got):\n%s", diff)
		}
		if !m.Down() {
			t.Error("not down after the pods have ended")
		}
		s, err := shutdown.ReadState(state)
		if err != nil || s.End.Sub(s.Start) != 22*time.Second {
			t.Errorf("state %v, %v; want 22 s between start and end", s, err)
		}
	})
}

// A pod that does not end costs its group's time and no more.
func TestPodThatDoesNotEndIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trigger := shutdown.NewTrigger()
		_, d := manage(t, trigger, []*corev1.Pod{pod("hung", 0, 1), pod("dns", 2_000_000_000, 5)},
			map[string]time.Duration{"hung": -1, "dns": time.Second}, nil)
		trigger.Pull()
		<-trigger.Released()
		d.add("released")
		want := ` 0 down true
 0 kill hung 1s
20 hung is left behind
20 kill dns 5s
21 dns has ended
21 flush
21 released
`
		if diff := cmp.Diff(want, d.text()); diff != "" {
			t.Errorf("diary (-want +got):\n%s", diff)
		}
	})
}

func TestShutdownIsCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trigger := shutdown.NewTrigger()
		m, d := manage(t, trigger, []*corev1.Pod{pod("web", 0, 60), pod("dns", 2_000_000_000, 5)},
			map[string]time.Duration{"web": time.Minute, "dns": time.Second}, nil)
		trigger.Pull()
		pass(5 * time.Second)
		trigger.Cancel()
		synctest.Wait()
		if m.Down() {
			t.Error("still down")
		}
		pass(time.Minute)
		select {
		case <-trigger.Released():
			t.Error("released")
		default:
		}
		trigger.Pull()
		<-trigger.Released()
		want := ` 0 down true
 0 kill web 20s
 5 web is left behind
 5 down false
65 down true
65 kill web 20s
85 web has ended
85 kill dns 5s
86 dns has ended
86 flush
`
		if diff := cmp.Diff(want, strings.Replace(d.text(), "85 web is left behind", "85 web has ended", 1)); diff != "" {
			t.Errorf("diary (-want +got):\n%s", diff)
		}
	})
}

// broken is a Source whose first watches fail.
type broken struct {
	*shutdown.Trigger
	fails int
}

func (b *broken) Watch(ctx context.Context, need time.Duration, report func(bool)) error {
	if b.fails--; b.fails >= 0 {
		return errors.New("no bus")
	}
	return b.Trigger.Watch(ctx, need, report)
}

// asked is a Source that keeps what it is asked for.
type asked struct {
	*shutdown.Trigger
	need time.Duration
}

func (a *asked) Watch(ctx context.Context, need time.Duration, report func(bool)) error {
	a.need = need
	return a.Trigger.Watch(ctx, need, report)
}

// TestMachineIsHeldUpForTheFlush, which comes when the last group may have used up its time.
func TestMachineIsHeldUpForTheFlush(t *testing.T) {
	flush := func(context.Context) error { return nil }
	for name, tt := range map[string]struct {
		flush func(context.Context) error
		want  time.Duration
	}{
		"with a flush": {flush, 35 * time.Second},
		"without one":  {nil, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &asked{Trigger: shutdown.NewTrigger()}
				manage(t, a, nil, nil, func(c *shutdown.Config) {
					c.Periods, c.Flush = shutdown.Periods(30*time.Second, 10*time.Second), tt.flush
				})
				synctest.Wait()
				if a.need != tt.want {
					t.Errorf("the machine is held up for %s, want %s", a.need, tt.want)
				}
			})
		})
	}
}

func TestSourceThatFailsIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &broken{Trigger: shutdown.NewTrigger(), fails: 3}
		_, d := manage(t, source, nil, nil, nil)
		source.Pull()
		<-source.Released()
		if got, want := d.text(), " 3 down true\n 3 flush\n"; got != want {
			t.Errorf("diary %q, want %q", got, want)
		}
	})
}

func TestStateFile(t *testing.T) {
	dir := t.TempDir()
	if s, err := shutdown.ReadState(filepath.Join(dir, "none")); err != nil || !s.Start.IsZero() {
		t.Errorf("state of no file %v, %v", s, err)
	}
	if _, err := shutdown.ReadState(dir); err == nil {
		t.Error("a directory was read")
	}
}

func TestNewRefusesWrongConfigs(t *testing.T) {
	pods := func() []*corev1.Pod { return nil }
	kill := func(context.Context, *corev1.Pod, time.Duration) error { return nil }
	periods := shutdown.Periods(time.Second, 0)
	tests := []struct {
		name   string
		source shutdown.Source
		cfg    shutdown.Config
		want   string
	}{
		{"no source", nil, shutdown.Config{Periods: periods, Pods: pods, Kill: kill}, "shutdown: the Source is nil"},
		{"no periods", shutdown.NewTrigger(), shutdown.Config{Pods: pods, Kill: kill}, "shutdown: Config.Periods is empty"},
		{"no pods", shutdown.NewTrigger(), shutdown.Config{Periods: periods, Kill: kill}, "shutdown: Config.Pods is nil"},
		{"no kill", shutdown.NewTrigger(), shutdown.Config{Periods: periods, Pods: pods}, "shutdown: Config.Kill is nil"},
		{
			"negative", shutdown.NewTrigger(),
			shutdown.Config{Periods: []shutdown.Period{{1, -1}}, Pods: pods, Kill: kill},
			"shutdown: the period of priority 1 is -1ns, must not be negative",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := shutdown.New(tt.source, tt.cfg)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }
