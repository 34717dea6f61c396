package podsource_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/nodekit-go/nodekit/podworker/podsource"
)

var errDown = errors.New("dial tcp 192.0.2.1:443: connect: connection refused")

// reader is a Source that runs in a test in fake time.
type reader struct {
	t      *testing.T
	source *podsource.Source
	log    *strings.Builder
	end    func()

	mu       sync.Mutex // guards the fields below
	sets     []podsource.Set
	answered int
	failed   []error
}

// read starts a Source, which ends with the test.
func read(t *testing.T, client podsource.Client, edit ...func(*podsource.Config)) *reader {
	t.Helper()
	r := &reader{t: t, log: &strings.Builder{}}
	cfg := podsource.Config{
		Node: "node-a",
		Log:  slog.New(slog.NewTextHandler(r.log, nil)),
		Hooks: podsource.Hooks{
			Answered: func() { r.mu.Lock(); defer r.mu.Unlock(); r.answered++ },
			Failed:   func(err error) { r.mu.Lock(); defer r.mu.Unlock(); r.failed = append(r.failed, err) },
		},
	}
	for _, e := range edit {
		e(&cfg)
	}
	s, err := podsource.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.source = s
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- s.Run(ctx, func(set podsource.Set) { r.mu.Lock(); defer r.mu.Unlock(); r.sets = append(r.sets, set) })
	}()
	r.end = sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(r.end)
	return r
}

// last returns how often sets were delivered and the names in the last one.
func (r *reader) last() (int, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sets) == 0 {
		return 0, nil
	}
	return len(r.sets), names(r.sets[len(r.sets)-1].Pods)
}

func names(pods []*corev1.Pod) []string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return out
}

// want fails the test unless the last set has these pods and so many were delivered.
func (r *reader) want(sets int, pods ...string) {
	r.t.Helper()
	synctest.Wait()
	n, got := r.last()
	if n != sets {
		r.t.Errorf("%d sets were delivered, want %d", n, sets)
	}
	if diff := cmp.Diff(pods, got); diff != "" {
		r.t.Errorf("pods of the last set (-want +got):\n%s", diff)
	}
}

func TestWholeSetsAreDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		web, db, other := newPod("web"), newPod("db"), newPod("other")
		db.CreationTimestamp = metav1.NewTime(time.Now())
		web.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		other.Spec.NodeName = "node-b"
		mirror := newPod("etcd-node-a")
		mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
		s.put(db)
		s.put(web)
		s.put(other)
		s.put(mirror)
		r := read(t, s)
		r.want(1, "web", "db")
		if diff := cmp.Diff([]string{"etcd-node-a"}, names(r.sets[0].Mirrors)); diff != "" {
			t.Errorf("mirrors (-want +got):\n%s", diff)
		}
		want := []string{"list spec.nodeName=node-a", "watch spec.nodeName=node-a from 4"}
		if diff := cmp.Diff(want, s.made()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		s.remove(web)
		r.want(2, "db")
		s.remove(db)
		r.want(3)
		if r.answered != 3 || len(r.failed) != 0 {
			t.Errorf("answered %d times, failed %v, want 3 answers", r.answered, r.failed)
		}
	})
}

// TestAnEmptyNodeIsAnAnswer: the first set is delivered also if it is empty, and none
// before the API server has answered.
func TestAnEmptyNodeIsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.failWith(func(string) error { return errDown })
		r := read(t, s)
		pass(time.Hour)
		r.want(0)
		s.failWith(nil)
		pass(time.Minute)
		r.want(1)
		if got := strings.Count(r.log.String(), "level=WARN"); got != 1 {
			t.Errorf("the log tells of one outage %d times:\n%s", got, r.log)
		}
		if !strings.Contains(r.log.String(), "tells of this node's pods again") {
			t.Errorf("the log does not tell of the end of the outage:\n%s", r.log)
		}
	})
}

// TestOutageKeepsTheSet: while nothing answers nothing is delivered, and afterwards the
// watch goes on where it was.
func TestOutageKeepsTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		web := newPod("web")
		s.put(web)
		r := read(t, s)
		r.want(1, "web")
		s.failWith(func(string) error { return errDown })
		s.cutAll()
		pass(10 * time.Minute)
		s.made()
		s.put(newPod("db"))
		s.remove(web)
		r.want(1, "web")
		s.failWith(nil)
		pass(time.Minute)
		if _, got := r.last(); !slices.Equal(got, []string{"db"}) { // in one delivery or two
			t.Errorf("pods are %q, want db", got)
		}
		if diff := cmp.Diff([]string{"watch spec.nodeName=node-a from 1"}, s.made()[:1]); diff != "" {
			t.Errorf("first call after the outage (-want +got):\n%s", diff)
		}
	})
}

// TestAttemptsAreSpread: a server that is down is asked ever less often, at least every
// minute, and the calls of many nodes do not fall together.
func TestAttemptsAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.failWith(func(string) error { return errDown })
		read(t, s)
		pass(10 * time.Second)
		if got := len(s.made()); got < 3 || got > 7 {
			t.Errorf("%d attempts in the first ten seconds, want some", got)
		}
		pass(5 * time.Minute)
		s.made()
		pass(10 * time.Minute)
		if got := len(s.made()); got < 10 || got > 20 {
			t.Errorf("%d attempts in ten minutes of an outage, want one in 30 to 60 seconds", got)
		}
	})
}

// TestRetryEndsTheWait between two attempts.
func TestRetryEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put(newPod("web"))
		s.failWith(func(string) error { return errDown })
		r := read(t, s)
		pass(10 * time.Minute)
		s.failWith(nil)
		r.want(0)
		r.source.Retry()
		r.want(1, "web")
	})
}

// TestForgottenVersionIsListedAnew: what changed while the watch was away is found by a
// new list, in both forms in which an API server tells.
func TestForgottenVersionIsListedAnew(t *testing.T) {
	for _, tt := range []struct {
		name string
		tell func(*server)
	}{
		{"refused watch", func(s *server) { s.forget() }},
		{"event", func(s *server) {
			s.say(watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: 410, Reason: metav1.StatusReasonExpired}})
			s.forget()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				web := newPod("web")
				s.put(web)
				r := read(t, s)
				r.want(1, "web")
				s.mu.Lock()
				delete(s.pods, web.UID) // nobody is told
				s.mu.Unlock()
				tt.tell(s)
				pass(10 * time.Second)
				r.want(2)
				if len(r.failed) > 0 && apierrors.IsResourceExpired(r.failed[0]) {
					t.Errorf("failures %v, want none: that is no outage", r.failed)
				}
			})
		})
	}
}

// TestUnknownEvents end the watch, and it goes on where it was.
func TestUnknownEvents(t *testing.T) {
	for _, tt := range []struct {
		name  string
		event watch.Event
	}{
		{"error", watch.Event{Type: watch.Error, Object: &metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: "etcd is down"}}},
		{"no pod", watch.Event{Type: watch.Added, Object: &corev1.Service{}}},
		{"nothing", watch.Event{Type: watch.Added}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put(newPod("web"))
				r := read(t, s)
				r.want(1, "web")
				s.say(tt.event)
				synctest.Wait()
				if len(r.failed) != 1 {
					t.Fatalf("failures %v, want one", r.failed)
				}
				s.mu.Lock()
				s.log = s.log[:1]
				s.mu.Unlock()
				s.put(newPod("db"))
				pass(time.Minute)
				r.want(2, "db", "web")
			})
		})
	}
}

// TestBurstIsDeliveredTogether: what comes while a set is taken makes one more.
func TestBurstIsDeliveredTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		events := make(chan watch.Event, 100)
		for _, name := range []string{"a", "b", "c", "d"} {
			events <- watch.Event{Type: watch.Added, Object: newPod(name)}
		}
		r := read(t, full{events})
		r.want(2, "a", "b", "c", "d")
	})
}

// full is an API server whose watch has many events at once.
type full struct{ events chan watch.Event }

func (full) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
}

func (f full) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return &stream{events: f.events, cancel: func() {}}, nil
}

// TestWatchThatHangs: a watch that neither tells anything nor ends at its time is left.
func TestWatchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := full{make(chan watch.Event)}
		r := read(t, s)
		pass(11 * time.Minute)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.failed) == 0 || !errors.Is(r.failed[0], context.DeadlineExceeded) {
			t.Errorf("failures %v, want that of a watch that lasted too long", r.failed)
		}
	})
}

// TestListThatHangs is given up.
func TestListThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := read(t, silent{}, func(c *podsource.Config) { c.Timeout = 5 * time.Second })
		pass(7 * time.Second)
		synctest.Wait()
		if r.mu.Lock(); len(r.failed) == 0 || !errors.Is(r.failed[0], context.DeadlineExceeded) {
			t.Errorf("failures %v, want that of a list that lasted too long", r.failed)
		}
		r.mu.Unlock()
	})
}

// silent never answers.
type silent struct{}

func (silent) List(ctx context.Context, _ metav1.ListOptions) (*corev1.PodList, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestAnnotations: each pod says where it is from and since when it is known, which stays
// as long as it is; the record of who wrote it is dropped.
func TestAnnotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		web := newPod("web")
		web.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		s.put(web)
		r := read(t, s)
		r.want(1, "web")
		first := r.sets[0].Pods[0]
		pass(time.Hour)
		web.Annotations = map[string]string{"a": "b"}
		s.put(web)
		r.want(2, "web")
		second := r.sets[1].Pods[0]
		want := map[string]string{"a": "b", "kubernetes.io/config.source": "api", "kubernetes.io/config.seen": first.Annotations[podsource.AnnotationSeen]}
		if diff := cmp.Diff(want, second.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if _, err := time.Parse(time.RFC3339Nano, want[podsource.AnnotationSeen]); err != nil {
			t.Error(err)
		}
		if len(first.ManagedFields) != 0 || podsource.IsStatic(first) || podsource.IsMirror(first) {
			t.Errorf("pod is %+v", first)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  podsource.Config
		want string
	}{
		{"no node", podsource.Config{}, "podsource: Config.Node is empty"},
		{"timeout", podsource.Config{Node: "n", Timeout: -1}, "podsource: Config.Timeout is -1ns"},
		{"watch", podsource.Config{Node: "n", Watch: time.Millisecond}, "podsource: Config.Watch is 1ms"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := podsource.New(silent{}, tt.cfg); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := podsource.New(nil, podsource.Config{Node: "n"}); err == nil {
		t.Error("no error without a client")
	}
}

// pass lets fake time pass until nothing happens at that moment any more.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
