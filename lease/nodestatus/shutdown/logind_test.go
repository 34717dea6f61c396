package shutdown_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
)

// patience is how long things on the bus may take.
const patience = time.Minute

// watch runs a Watch until the test ends and returns what it reports and its error.
func watch(t *testing.T, l *shutdown.Logind, need time.Duration) (reports <-chan bool, failed <-chan error) {
	t.Helper()
	got, errs := make(chan bool, 10), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { errs <- l.Watch(ctx, need, func(down bool) { got <- down }) })
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return got, errs
}

func next[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatalf("%s did not come within %s", what, patience)
		panic("unreachable")
	}
}

func TestLogindHoldsTheMachineUpUntilRelease(t *testing.T) {
	b := newBus(t, time.Minute)
	l := shutdown.NewLogind(shutdown.LogindConfig{Connect: b.connect})
	reports, _ := watch(t, l, 30*time.Second)
	if next(t, reports, "the first report") {
		t.Fatal("down at the start")
	}
	b.prepare(true)
	if !next(t, reports, "the signal") {
		t.Fatal("not down after the signal")
	}
	if b.released(0, 50*time.Millisecond) {
		t.Fatal("the inhibitor was given back before Release")
	}
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if !b.released(0, patience) {
		t.Error("the inhibitor was not given back by Release")
	}
	if err := l.Release(); err != nil {
		t.Errorf("second Release: %v", err)
	}
	// Called off: logind is held up for the next time.
	b.prepare(false)
	if next(t, reports, "the second signal") {
		t.Fatal("down after it was called off")
	}
	b.awaitCalls(2)
	b.prepare(true)
	if !next(t, reports, "the third signal") {
		t.Fatal("not down after the third signal")
	}
	want := []string{"Inhibit shutdown delay", "Inhibit shutdown delay"}
	if diff := cmp.Diff(want, b.log()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestLogindIsMadeToWaitLongEnough(t *testing.T) {
	b := newBus(t, 5*time.Second)
	b.set(func(b *bus) { b.reload = 31_000_000 })
	dropIn := filepath.Join(t.TempDir(), "logind.conf.d", "99-kubelet.conf")
	l := shutdown.NewLogind(shutdown.LogindConfig{Connect: b.connect, DropIn: dropIn})
	reports, _ := watch(t, l, 30500*time.Millisecond)
	next(t, reports, "the first report")
	data, err := os.ReadFile(dropIn)
	if err != nil || !strings.Contains(string(data), "[Login]\nInhibitDelayMaxSec=31\n") {
		t.Errorf("drop-in %q, %v; want a delay of 31", data, err)
	}
	if diff := cmp.Diff([]string{"KillUnit systemd-logind.service", "Inhibit shutdown delay"}, b.log()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A delay that is too short is better than none, and logind is not pestered for more.
func TestLogindThatDoesNotWaitLongEnough(t *testing.T) {
	for _, c := range []struct {
		name string
		// dropIn is below a temporary directory.
		dropIn string
		want   string
		calls  []string
	}{
		{"another file has the last word", "drop-in", "logind waits 6s, want 30s", []string{
			"KillUnit systemd-logind.service", "Inhibit shutdown delay", "Inhibit shutdown delay",
		}},
		{"the file cannot be written", "file/drop-in", "not a directory", []string{"Inhibit shutdown delay", "Inhibit shutdown delay"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBus(t, 5*time.Second)
			b.set(func(b *bus) { b.reload = 6_000_000 })
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var log lockedBuffer
			l := shutdown.NewLogind(shutdown.LogindConfig{
				Connect: b.connect, DropIn: filepath.Join(dir, c.dropIn), Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			for range 2 {
				reports, failed := watch(t, l, 30*time.Second)
				if next(t, reports, "the first report") {
					t.Error("down at the start")
				}
				b.hangUp()
				next(t, failed, "the end of the bus")
			}
			if diff := cmp.Diff(c.calls, b.log()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if got := log.String(); strings.Count(got, c.want) != 2 {
				t.Errorf("log is %s, want %q in it for each watch", got, c.want)
			}
		})
	}
}

// lockedBuffer is a buffer that a logger may write to while it is read.
type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// The bus may be restarted while the machine goes down: it stays held up.
func TestBusThatEnds(t *testing.T) {
	b := newBus(t, time.Minute)
	l := shutdown.NewLogind(shutdown.LogindConfig{Connect: b.connect})
	reports, failed := watch(t, l, 30*time.Second)
	next(t, reports, "the first report")
	b.hangUp()
	if err := next(t, failed, "the error"); err == nil || !strings.Contains(err.Error(), "the connection to the system bus ended") {
		t.Errorf("error %v", err)
	}
	if !b.released(0, patience) {
		t.Error("the inhibitor of a connection that ended is still held")
	}

	reports, failed = watch(t, l, 30*time.Second)
	next(t, reports, "the report after reconnecting")
	b.prepare(true)
	next(t, reports, "the signal")
	b.hangUp()
	if err := next(t, failed, "the error"); err == nil {
		t.Error("no error of a bus that ended")
	}
	if b.released(1, 50*time.Millisecond) {
		t.Error("the machine is not held up any more because the bus ended")
	}
	// Again on the bus: it is seen that the machine goes down, although logind gives no
	// inhibitor any more.
	reports, _ = watch(t, l, 30*time.Second)
	if !next(t, reports, "the report after reconnecting") {
		t.Error("not down after reconnecting")
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if !b.released(1, patience) {
		t.Error("the inhibitor was not given back by Release")
	}
}

func TestWatchLeavesNothingBehind(t *testing.T) {
	b := newBus(t, time.Minute)
	for range 20 {
		l := shutdown.NewLogind(shutdown.LogindConfig{Connect: b.connect})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		reports := make(chan bool, 1)
		go func() { done <- l.Watch(ctx, time.Second, func(down bool) { reports <- down }) }()
		next(t, reports, "the first report")
		stop()
		if err := next(t, done, "the end"); err != nil {
			t.Errorf("Watch: %v", err)
		}
	}
	for i := range 20 {
		if !b.released(i, patience) {
			t.Errorf("inhibitor %d is still held", i)
		}
	}
}

func TestNoBusIsAnError(t *testing.T) {
	b := newBus(t, time.Minute)
	_ = b.listener.Close()
	l := shutdown.NewLogind(shutdown.LogindConfig{Connect: b.connect})
	err := l.Watch(t.Context(), time.Second, func(bool) {})
	if err == nil || !strings.HasPrefix(err.Error(), "connect to the system bus: ") {
		t.Errorf("error %v", err)
	}
}
