package podworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// recorder is a Syncer that writes down when which call begins and ends, and does
// what the test says in between.
type recorder struct {
	start       time.Time
	sync        func(ctx context.Context, pod *corev1.Pod) (Outcome, error)
	terminating func(ctx context.Context, pod *corev1.Pod, t Termination) error
	terminated  func(ctx context.Context, pod *corev1.Pod) error

	mu    sync.Mutex // guards lines
	lines []string
}

func (r *recorder) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Since(r.start).Round(100 * time.Millisecond)
	r.lines = append(r.lines, fmt.Sprintf("%s ", at)+fmt.Sprintf(format, args...))
}

// take returns the lines so far that contain one of the words, or all.
func (r *recorder) take(words ...string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, line := range r.lines {
		if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.Contains(line, w) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (r *recorder) Sync(ctx context.Context, pod *corev1.Pod) (Outcome, error) {
	r.note("%s sync %s", pod.UID, pod.ResourceVersion)
	if r.sync == nil {
		return Outcome{}, nil
	}
	return r.sync(ctx, pod)
}

func (r *recorder) SyncTerminating(ctx context.Context, pod *corev1.Pod, t Termination) error {
	r.note("%s stop %s", pod.UID, t.Grace)
	if r.terminating == nil {
		return nil
	}
	err := r.terminating(ctx, pod, t)
	if err == nil {
		r.note("%s stopped", pod.UID)
	}
	return err
}

func (r *recorder) SyncTerminated(ctx context.Context, pod *corev1.Pod) error {
	r.note("%s clean", pod.UID)
	if r.terminated == nil {
		return nil
	}
	return r.terminated(ctx, pod)
}

// steady is no jitter.
func steady(d time.Duration) time.Duration { return d }

// bubble is a running Pool and the test in fake time.
type bubble struct {
	*Pool
	t *testing.T
}

// inBubble runs f with a running Pool on fake time.
func inBubble(t *testing.T, r *recorder, f func(p *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r.start = time.Now()
		p, err := newWith(r, Config{}, steady)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- p.Run(ctx) }()
		f(&bubble{Pool: p, t: t})
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// podOf returns a pod of the API.
func podOf(uid, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: uid, UID: types.UID(uid), ResourceVersion: version,
	}}
}

// staticPod returns a pod of a file with a grace period in seconds.
func staticPod(uid, name string, grace int64) *corev1.Pod {
	pod := podOf(uid, "")
	pod.Name = name
	pod.Annotations = map[string]string{sourceAnnotation: "file"}
	pod.Spec.TerminationGracePeriodSeconds = &grace
	return pod
}

// after lets fake time pass until the pool is idle at that moment.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// uids returns a sequence for Retain.
func uids(ids ...types.UID) func(func(types.UID) bool) { return slices.Values(ids) }

// expect compares lines.
func expect(t *testing.T, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

// TestHungSyncDelaysNoOtherPod: one pod never returns from Sync, not even when its
// context ends; its neighbour lives and dies on time.
func TestHungSyncDelaysNoOtherPod(t *testing.T) {
	var release chan struct{}
	r := &recorder{}
	r.sync = func(_ context.Context, pod *corev1.Pod) (Outcome, error) {
		if pod.UID == "hung" {
			<-release
		}
		return Outcome{}, nil
	}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		r.start = time.Now()
		p, err := newWith(r, Config{}, steady)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- p.Run(ctx) }()
		p.Update(podOf("hung", ""))
		p.Update(podOf("good", ""))
		after(90 * time.Second)
		p.Terminate("hung", Termination{})
		p.Terminate("good", Termination{Grace: 7 * time.Second})
		after(time.Second)
		s, _ := p.State("hung")
		if s.Phase != Terminating || time.Since(s.BusySince) != 91*time.Second {
			t.Errorf("hung pod is %s, busy for %s; want Terminating, busy for 91s", s.Phase, time.Since(s.BusySince))
		}
		close(release)
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	expect(t, []string{"0s good sync ", "1m0s good sync ", "1m30s good stop 7s", "1m30s good clean"}, r.take("good"))
}

// TestUpdateNeverBlocksAndLatestWins: a thousand versions arrive during one Sync.
func TestUpdateNeverBlocksAndLatestWins(t *testing.T) {
	r := &recorder{sync: func(context.Context, *corev1.Pod) (Outcome, error) {
		<-time.After(5 * time.Second)
		return Outcome{}, nil
	}}
	inBubble(t, r, func(p *bubble) {
		p.Update(podOf("a", "0"))
		synctest.Wait()
		for i := range 1000 {
			p.Update(podOf("a", fmt.Sprint(i+1)))
		}
		after(20 * time.Second)
	})
	expect(t, []string{"0s a sync 0", "5s a sync 1000"}, r.take())
}

// TestShorterGraceIsHonouredAtOnce: the app ignores TERM, so the stop lasts as
// long as the grace period.
func TestShorterGraceIsHonouredAtOnce(t *testing.T) {
	tests := []struct {
		name   string
		second time.Duration
		want   string
	}{
		{name: "shorter", second: 5 * time.Second, want: "25s a stopped"},
		{name: "longer", second: 300 * time.Second, want: "2m10s a stopped"},
		{name: "force", second: MinGrace, want: "21s a stopped"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{terminating: func(ctx context.Context, _ *corev1.Pod, term Termination) error {
				select {
				case <-time.After(term.Grace):
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}}
			inBubble(t, r, func(p *bubble) {
				p.Update(podOf("a", ""))
				after(10 * time.Second)
				p.Terminate("a", Termination{Grace: 120 * time.Second})
				after(10 * time.Second)
				p.Terminate("a", Termination{Grace: tt.second})
				after(200 * time.Second)
			})
			expect(t, []string{tt.want}, r.take("stopped"))
		})
	}
}

// TestStaticPodWaitsForItsPredecessor: the successor starts the moment the
// predecessor has been cleaned up, and the version in between never does.
func TestStaticPodWaitsForItsPredecessor(t *testing.T) {
	r := &recorder{
		terminating: func(_ context.Context, pod *corev1.Pod, _ Termination) error {
			if pod.UID == "old" {
				<-time.After(15 * time.Second)
			}
			return nil
		},
		terminated: func(_ context.Context, pod *corev1.Pod) error {
			if pod.UID == "old" {
				<-time.After(2 * time.Second)
			}
			return nil
		},
	}
	inBubble(t, r, func(p *bubble) {
		p.Update(staticPod("old", "web", 20))
		after(10 * time.Second)
		for _, uid := range []types.UID{"mid", "new"} {
			p.Update(staticPod(string(uid), "web", 20))
			p.Retain(uids(uid))
			after(time.Second)
		}
		if s, _ := p.State("new"); s.Phase != Waiting || s.MayRunContainers() != true {
			p.t.Errorf("successor is %s, want Waiting", s.Phase)
		}
		after(30 * time.Second)
	})
	expect(t, []string{
		"0s old sync ", "10s old stop 20s", "25s old stopped", "25s old clean", "27s new sync ",
	}, r.take("old", "new"))
	expect(t, nil, r.take("mid sync"))
}

// TestVanish: one pod ends and its successor starts while the whole set is not known yet;
// nothing else is taken to be absent.
func TestVanish(t *testing.T) {
	r := &recorder{terminating: func(context.Context, *corev1.Pod, Termination) error {
		<-time.After(5 * time.Second)
		return nil
	}}
	inBubble(t, r, func(p *bubble) {
		p.Update(staticPod("old", "web", 20))
		p.Update(staticPod("other", "db", 20))
		after(10 * time.Second)
		p.Vanish("old")
		p.Vanish("unknown")
		p.Update(staticPod("new", "web", 20))
		after(10 * time.Second)
		if s, known := p.State("old"); known || s.Done() {
			p.t.Errorf("state of the old pod is %+v, %t; want that it is forgotten, and nobody knows who is wanted", s, known)
		}
		if s, _ := p.State("other"); s.Phase != Syncing {
			p.t.Errorf("the other pod is %s, want Syncing", s.Phase)
		}
	})
	expect(t, []string{"0s old sync ", "10s old stop 20s", "15s old stopped", "15s old clean", "15s new sync "}, r.take("old", "new"))
}

// TestEnding follows a static pod by its name through its end.
func TestEnding(t *testing.T) {
	r := &recorder{
		terminating: func(context.Context, *corev1.Pod, Termination) error { <-time.After(10 * time.Second); return nil },
		terminated:  func(context.Context, *corev1.Pod) error { <-time.After(10 * time.Second); return nil },
	}
	var got []string
	inBubble(t, r, func(p *bubble) {
		look := func() {
			s, _ := p.State("a")
			got = append(got, fmt.Sprint(s.Phase, " ", p.Ending("default", "web")))
		}
		p.Update(staticPod("a", "web", 20))
		after(time.Second)
		look()
		p.Retain(uids())
		after(5 * time.Second)
		look()
		after(10 * time.Second)
		look()
		after(10 * time.Second)
		look()
	})
	expect(t, []string{"Syncing false", "Terminating true", "Terminated true", "Unknown false"}, got)
}

// TestManifestPutBackStartsAgain: a manifest is removed and written again, byte by
// byte the same, while its app still needs 10 of its 20 s to end.
func TestManifestPutBackStartsAgain(t *testing.T) {
	for name, gap := range map[string]time.Duration{"slow": 2 * time.Second, "quick": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{terminating: func(context.Context, *corev1.Pod, Termination) error {
				<-time.After(10 * time.Second)
				return nil
			}}
			inBubble(t, r, func(p *bubble) {
				p.Update(staticPod("a", "relay", 20))
				p.Retain(uids("a"))
				after(10 * time.Second)
				p.Retain(uids())
				after(gap)
				p.Update(staticPod("a", "relay", 20))
				p.Retain(uids("a"))
				if s, _ := p.State("a"); !s.Restart || s.Done() {
					p.t.Errorf("state is %+v, want a restart to come", s)
				}
				after(30 * time.Second)
				if s, _ := p.State("a"); s.Phase != Syncing {
					p.t.Errorf("phase is %s, want Syncing", s.Phase)
				}
			})
			expect(t, []string{
				"0s a sync ", "10s a stop 20s", "20s a stopped", "20s a clean", "20s a sync ",
			}, r.take())
		})
	}
}

// TestStopIsRetriedUntilItWorks: the runtime refuses for 40 s, the pod has
// vanished from its source, and a pod of the same name waits.
func TestStopIsRetriedUntilItWorks(t *testing.T) {
	r := &recorder{}
	r.terminating = func(context.Context, *corev1.Pod, Termination) error {
		if time.Since(r.start) < 60*time.Second {
			return errors.New("unavailable")
		}
		return nil
	}
	inBubble(t, r, func(p *bubble) {
		p.Update(staticPod("old", "web", 30))
		after(20 * time.Second)
		p.Update(staticPod("new", "web", 30))
		p.Retain(uids("new"))
		for range 60 {
			after(500 * time.Millisecond)
			p.Wake("old") // the relist sees something each time
		}
		after(time.Minute)
	})
	var last time.Duration
	for _, line := range r.take("old stop ") {
		at, err := time.ParseDuration(strings.Fields(line)[0])
		if err != nil {
			t.Fatal(err)
		}
		if gap := at - last; last != 0 && (gap < time.Second || gap > time.Minute) {
			t.Errorf("stop tried again after %s, want between 1s and 1m", gap)
		}
		last = at
	}
	got := r.take("new sync")
	if len(got) == 0 || !strings.HasPrefix(got[0], "1m") {
		t.Errorf("successor synced at %q, want soon after 1m", got)
	}
}

// TestWaits: how long the Pool waits for the next Sync.
func TestWaits(t *testing.T) {
	tests := []struct {
		name    string
		outcome Outcome
		err     error
		want    string
	}{
		{name: "resync", want: "1m0s a sync "},
		{name: "again", outcome: Outcome{Again: 3 * time.Second}, want: "3s a sync "},
		{name: "again is bounded by the resync", outcome: Outcome{Again: time.Hour}, want: "1m0s a sync "},
		{name: "error", err: errors.New("boom"), want: "10s a sync "},
		{name: "error with a wait", err: fmt.Errorf("start: %w", wait{25 * time.Second}), want: "25s a sync "},
		{name: "wait in a joined error", err: errors.Join(errors.New("x"), wait{25 * time.Second}), want: "25s a sync "},
		{name: "wait is bounded by the resync", err: wait{300 * time.Second}, want: "1m0s a sync "},
		{name: "wait is at least a second", err: wait{}, want: "1s a sync "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{}
			r.sync = func(context.Context, *corev1.Pod) (Outcome, error) {
				if time.Since(r.start) > 0 {
					return Outcome{}, nil
				}
				return tt.outcome, tt.err
			}
			inBubble(t, r, func(p *bubble) {
				p.Update(podOf("a", ""))
				synctest.Wait()
				if s, _ := p.State("a"); !errors.Is(s.Err, tt.err) {
					p.t.Errorf("State.Err = %v, want %v", s.Err, tt.err)
				}
				after(61 * time.Second)
			})
			if got := r.take(); len(got) < 2 || got[1] != tt.want {
				t.Errorf("calls are %q, want the second to be %q", got, tt.want)
			}
		})
	}
}

// TestWaitsAreLengthenedByUpToAHalf bounds the jitter.
func TestWaitsAreLengthenedByUpToAHalf(t *testing.T) {
	var least, most time.Duration = time.Hour, 0
	for range 1000 {
		d := halfLonger(10 * time.Second)
		least, most = min(least, d), max(most, d)
	}
	if least < 10*time.Second || most > 15*time.Second || most-least < 4*time.Second {
		t.Errorf("10s became %s to %s, want 10s to 15s", least, most)
	}
}

// TestRunLeavesPodsRunning: the end of Run cancels and waits, and stops no pod.
// What is handed in before Run is done when it starts, and nothing after it.
func TestRunLeavesPodsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now(), sync: func(ctx context.Context, _ *corev1.Pod) (Outcome, error) {
			<-ctx.Done()
			<-time.After(3 * time.Second)
			return Outcome{}, ctx.Err()
		}}
		p, err := New(r, Config{})
		if err != nil {
			t.Fatal(err)
		}
		p.Update(podOf("a", ""))
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
		if at := time.Since(r.start); at != 13*time.Second {
			t.Errorf("Run returned after %s, want 13s: when the Sync had returned", at)
		}
		p.Update(podOf("b", ""))
		p.Terminate("a", Termination{})
		after(time.Minute)
		expect(t, []string{"0s a sync "}, r.take())
		if err := p.Run(t.Context()); err == nil {
			t.Error("a second Run returned nil, want an error")
		}
	})
}

// TestLagShowsThatRunDoesNotWork: it is zero while Run works, whatever the Syncer
// does, and grows once Run has ended.
func TestLagShowsThatRunDoesNotWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{start: time.Now(), sync: func(ctx context.Context, _ *corev1.Pod) (Outcome, error) {
			<-ctx.Done()
			return Outcome{}, ctx.Err()
		}}
		p, err := newWith(r, Config{}, steady)
		if err != nil {
			t.Fatal(err)
		}
		p.Update(podOf("a", ""))
		after(5 * time.Second)
		if lag := p.Lag(); lag != 5*time.Second {
			t.Errorf("before Run the lag is %s, want 5s", lag)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		done := make(chan error)
		go func() { done <- p.Run(ctx) }()
		after(time.Hour - 1)
		if lag := p.Lag(); lag > 0 {
			t.Errorf("while Run works the lag is %s, want none", lag)
		}
		<-done
		after(2 * time.Minute)
		if lag := p.Lag(); lag < time.Minute {
			t.Errorf("after Run the lag is %s, want more than a minute", lag)
		}
	})
}

// TestPanicIsAnErrorOfThatPod: a bug that one pod wakes does not stop the others.
func TestPanicIsAnErrorOfThatPod(t *testing.T) {
	r := &recorder{sync: func(_ context.Context, pod *corev1.Pod) (Outcome, error) {
		if pod.UID == "bad" {
			panic("no such container")
		}
		return Outcome{}, nil
	}}
	inBubble(t, r, func(p *bubble) {
		p.Update(podOf("bad", ""))
		p.Update(podOf("good", ""))
		after(time.Second)
		s, _ := p.State("bad")
		if s.Err == nil || !strings.Contains(s.Err.Error(), "Sync panicked: no such container") {
			p.t.Errorf("State.Err = %v, want the panic", s.Err)
		}
		after(10 * time.Second)
	})
	expect(t, []string{"0s bad sync ", "10s bad sync "}, r.take("bad"))
}

// TestWait returns when the phase is reached, the pod forgotten or reborn, or the
// context over.
func TestWait(t *testing.T) {
	r := &recorder{terminating: func(context.Context, *corev1.Pod, Termination) error {
		<-time.After(4 * time.Second)
		return nil
	}}
	inBubble(t, r, func(p *bubble) {
		if s, err := p.Wait(p.t.Context(), "nobody", Finished); err != nil || s.Phase != Unknown {
			p.t.Errorf("Wait for an unknown pod: %s, %v", s.Phase, err)
		}
		p.Update(podOf("a", ""))
		short, cancel := context.WithTimeout(p.t.Context(), time.Second)
		defer cancel()
		if _, err := p.Wait(short, "a", Terminated); !errors.Is(err, context.DeadlineExceeded) {
			p.t.Errorf("Wait error is %v, want that of the context", err)
		}
		p.Retain(uids())
		p.Update(podOf("a", ""))
		if s, err := p.Wait(p.t.Context(), "a", Finished); err != nil || s.Phase != Syncing {
			p.t.Errorf("Wait for a pod that is reborn: %s, %v; want Syncing", s.Phase, err)
		}
		if at := time.Since(r.start); at != 5*time.Second {
			p.t.Errorf("reborn after %s, want 5s", at)
		}
	})
}

// TestNewNamesWhatIsWrong checks the arguments of New.
func TestNewNamesWhatIsWrong(t *testing.T) {
	tests := []struct {
		name   string
		syncer Syncer
		cfg    Config
		want   string
	}{
		{name: "no syncer", want: "needs a Syncer"},
		{name: "resync", syncer: &recorder{}, cfg: Config{Resync: -1}, want: "Config.Resync"},
		{name: "back-off", syncer: &recorder{}, cfg: Config{Backoff: -1}, want: "Config.Backoff"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := New(tt.syncer, tt.cfg)
			if p != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New = %v, %v; want an error with %q", p, err, tt.want)
			}
		})
	}
}

// TestLogNamesPodAndError reads what an operator sees.
func TestLogNamesPodAndError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		r := &recorder{sync: func(context.Context, *corev1.Pod) (Outcome, error) {
			return Outcome{}, errors.New("no image")
		}}
		p, err := newWith(r, Config{Log: slog.New(slog.NewTextHandler(&b, nil))}, steady)
		if err != nil {
			t.Fatal(err)
		}
		p.Update(podOf("a", ""))
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := p.Run(ctx); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"level=WARN", "pod=default/a", "uid=a", "call=Sync", `err="no image"`, "retry=10s"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("log %q has no %s", b.String(), want)
			}
		}
	})
}

// BenchmarkPool measures a hint until its Sync has returned, among 500 pods.
func BenchmarkPool(b *testing.B) {
	synced := make(chan struct{}, 500)
	r := syncFunc(func() { synced <- struct{}{} })
	p, err := New(r, Config{})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error)
	ctx, stop := context.WithCancel(b.Context())
	go func() { done <- p.Run(ctx) }()
	for i := range 500 {
		p.Update(podOf(fmt.Sprint(i), ""))
	}
	for range 500 {
		<-synced
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.Wake(types.UID(fmt.Sprint(i % 500)))
		<-synced
	}
	stop()
	<-done
}

// syncFunc is a Syncer whose Sync only calls it.
type syncFunc func()

func (f syncFunc) Sync(context.Context, *corev1.Pod) (Outcome, error) {
	f()
	return Outcome{}, nil
}
func (syncFunc) SyncTerminating(context.Context, *corev1.Pod, Termination) error { return nil }
func (syncFunc) SyncTerminated(context.Context, *corev1.Pod) error               { return nil }

// TestPodWithoutUID is one that cannot be told from others: nothing is called for it.
func TestPodWithoutUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		r := &recorder{start: time.Now()}
		p, err := New(r, Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		p.Update(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
		p.TerminateOrphan(&corev1.Pod{}, Termination{})
		if n := len(maps.Collect(p.All())); n != 0 {
			t.Errorf("%d pods known, want none", n)
		}
		if !strings.Contains(log.String(), "default/web") {
			t.Errorf("log is %q, want the name of the pod in it", log.String())
		}
	})
}
