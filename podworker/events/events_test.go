package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodekit-go/nodekit/podworker/events"
)

func newPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			InitContainers:      []corev1.Container{{Name: "setup"}},
			Containers:          []corev1.Container{{Name: "app"}},
			EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
}

func TestOfPodNamesTheContainer(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"app", "spec.containers{app}"},
		{"setup", "spec.initContainers{setup}"},
		{"debug", "spec.ephemeralContainers{debug}"},
		{"", ""},
		{"other", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web", UID: "u1", FieldPath: tc.want}
			if diff := cmp.Diff(want, events.OfPod(newPod(), tc.name)); diff != "" {
				t.Errorf("reference (-want +got):\n%s", diff)
			}
		})
	}
}

// outcome is what became of an event.
type outcome struct {
	Verdict events.Verdict
	Count   int32
	Message string
}

// correlate hands a Correlator events with these messages, some time apart.
func correlate(every time.Duration, messages ...string) []outcome {
	c := events.NewCorrelator()
	now := time.Unix(1000, 0)
	var out []outcome
	for i, m := range messages {
		e := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprint("e", i)},
			InvolvedObject: events.OfPod(newPod(), "app"), Type: corev1.EventTypeNormal, Reason: "R", Message: m, Count: 1,
		}
		got, verdict := c.Correlate(e, now)
		o := outcome{Verdict: verdict}
		if got != nil {
			o.Count, o.Message = got.Count, got.Message
		}
		out = append(out, o)
		now = now.Add(every)
	}
	return out
}

func repeat(n int, message func(int) string) (out []string) {
	for i := range n {
		out = append(out, message(i))
	}
	return out
}

func TestCorrelator(t *testing.T) {
	same := func(int) string { return "same" }
	numbered := func(i int) string { return fmt.Sprint("number ", i) }
	t.Run("the same again is counted", func(t *testing.T) {
		want := []outcome{{events.Create, 1, "same"}, {events.Update, 2, "same"}, {events.Update, 3, "same"}}
		if diff := cmp.Diff(want, correlate(time.Second, repeat(3, same)...)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("the tenth that is similar becomes one with those after it", func(t *testing.T) {
		got := correlate(time.Second, repeat(12, numbered)...)
		want := []outcome{
			{events.Create, 1, "number 8"},
			{events.Create, 1, "(combined from similar events): number 9"},
			{events.Update, 2, "(combined from similar events): number 10"},
			{events.Update, 3, "(combined from similar events): number 11"},
		}
		if diff := cmp.Diff(want, got[8:]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("similar ones far apart stay apart", func(t *testing.T) {
		for i, o := range correlate(11*time.Minute, repeat(20, numbered)...) {
			if o.Verdict != events.Create || o.Message != numbered(i) {
				t.Errorf("event %d became %+v", i, o)
			}
		}
	})
	t.Run("a flood is cut off and its count goes on", func(t *testing.T) {
		got := correlate(time.Second, repeat(400, same)...)
		for i, o := range got {
			told := i < 25 || i == 300 // one more every five minutes
			if told != (o.Verdict != events.Drop) {
				t.Errorf("event %d became %+v", i, o)
			}
			if told && o.Count != int32(i+1) {
				t.Errorf("event %d has the count %d", i, o.Count)
			}
		}
	})
}

// api is the part of an API server that keeps events.
type api struct {
	mu     sync.Mutex
	fail   func() error
	calls  []string
	events map[string]*corev1.Event
}

func (a *api) client(string) events.API { return a }

func (a *api) call(verb, name string) error {
	a.calls = append(a.calls, verb)
	if a.fail != nil {
		return a.fail()
	}
	if _, ok := a.events[name]; verb == "patch" && !ok {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, name)
	}
	return nil
}

func (a *api) Create(_ context.Context, e *corev1.Event, _ metav1.CreateOptions) (*corev1.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.call("create", e.Name); err != nil {
		return nil, err
	}
	a.events[e.Name] = e.DeepCopy()
	return e, nil
}

//nolint:revive // the arguments are those of client-go
func (a *api) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Event, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.call("patch", name); err != nil {
		return nil, err
	}
	e := a.events[name]
	return e, json.Unmarshal(data, e)
}

// called returns the verbs of all calls so far.
func (a *api) called() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// all returns what the API server has, as "message ×count".
func (a *api) all() map[string]int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]int32{}
	for _, e := range a.events {
		out[e.Message] = e.Count
	}
	return out
}

// pass lets time pass and the Recorder come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func start(t *testing.T, cfg events.Config) *events.Recorder {
	t.Helper()
	r := events.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestEventsReachTheAPIServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{events: map[string]*corev1.Event{}}
		var heard []int32
		r := start(t, events.Config{Host: "node-a", API: a.client, Told: func(e *corev1.Event) { heard = append(heard, e.Count) }})
		app := events.OfPod(newPod(), "app")
		for range 3 {
			r.Record(app, corev1.EventTypeWarning, "BackOff", "again")
		}
		r.Record(events.OfNode("node-a"), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
		synctest.Wait()
		if diff := cmp.Diff(map[string]int32{"again": 3, "Starting kubelet.": 1}, a.all()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int32{1, 2, 3, 1}, heard); diff != "" {
			t.Errorf("counts that were told (-want +got):\n%s", diff)
		}
		recent := r.Recent()
		if len(recent) != 2 || recent[0].Count != 3 || recent[1].Namespace != "default" || recent[0].ReportingInstance != "node-a" {
			t.Errorf("recent are %v", recent)
		}
	})
}

// TestEventsMayHaveAnnotations: of an event that repeats those of the last time count.
func TestEventsMayHaveAnnotations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{events: map[string]*corev1.Event{}}
		r := start(t, events.Config{API: a.client})
		for _, usage := range []string{"8Mi", "9Mi"} {
			r.Annotated(map[string]string{"usage": usage}).Record(events.OfPod(newPod(), ""), corev1.EventTypeWarning, "Evicted", "low on memory")
			synctest.Wait()
			a.mu.Lock()
			for _, e := range a.events {
				if diff := cmp.Diff(map[string]string{"usage": usage}, e.Annotations); diff != "" || len(a.events) != 1 {
					t.Errorf("annotations of one of %d events (-want +got):\n%s", len(a.events), diff)
				}
			}
			a.mu.Unlock()
		}
	})
}

// TestEventsOfLongNames: the name of a pod may be as long as that of an event, which has it
// as its beginning.
func TestEventsOfLongNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{events: map[string]*corev1.Event{}}
		r := start(t, events.Config{API: a.client})
		for _, name := range []string{
			strings.Repeat("a", 236), strings.Repeat("a", 253),
			strings.Repeat("a", 235) + strings.Repeat("-", 17) + "a", strings.Repeat("a", 235) + ".b." + strings.Repeat("c", 15),
		} {
			pod := newPod()
			pod.Name, pod.UID = name, types.UID(name)
			r.Record(events.OfPod(pod, ""), corev1.EventTypeNormal, "R", "m of "+name)
		}
		synctest.Wait()
		recent := r.Recent()
		if len(recent) != 4 {
			t.Errorf("%d events, want 4", len(recent))
		}
		for _, e := range recent {
			for _, problem := range validation.IsDNS1123Subdomain(e.Name) {
				t.Errorf("event %s (%d bytes): %s", e.Name, len(e.Name), problem)
			}
			if e.Message != "m of "+e.InvolvedObject.Name {
				t.Errorf("event of %s says %q", e.InvolvedObject.Name, e.Message)
			}
		}
	})
}

func TestEventsOutliveAShortOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{events: map[string]*corev1.Event{}, fail: func() error { return errors.New("connection refused") }}
		r := start(t, events.Config{API: a.client})
		app := events.OfPod(newPod(), "app")
		r.Record(app, corev1.EventTypeNormal, "Started", "old")
		pass(3 * time.Minute)
		if n := len(a.called()); n < 10 || n > 14 {
			t.Errorf("%d calls for an event in three minutes of outage, want about 12", n)
		}
		r.Record(app, corev1.EventTypeNormal, "Started", "young")
		pass(30 * time.Second)
		a.mu.Lock()
		a.fail = nil
		a.mu.Unlock()
		pass(time.Minute)
		if diff := cmp.Diff(map[string]int32{"young": 1}, a.all()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestRefusedEventIsNotToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{events: map[string]*corev1.Event{}}
		a.fail = func() error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "e", errors.New("the namespace is being terminated"))
		}
		r := start(t, events.Config{API: a.client})
		r.Record(events.OfPod(newPod(), ""), corev1.EventTypeNormal, "Killing", "Stopping container app")
		pass(10 * time.Minute)
		if got := a.called(); len(got) != 1 {
			t.Errorf("calls: %v", got)
		}
	})
}

func TestCountedEventThatIsGoneIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{events: map[string]*corev1.Event{}}
		r := start(t, events.Config{API: a.client})
		app := events.OfPod(newPod(), "app")
		r.Record(app, corev1.EventTypeNormal, "R", "m")
		synctest.Wait()
		a.mu.Lock()
		clear(a.events) // the API server forgets events after an hour
		a.mu.Unlock()
		r.Record(app, corev1.EventTypeNormal, "R", "m")
		synctest.Wait()
		if diff := cmp.Diff(map[string]int32{"m": 2}, a.all()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestRecordNeverWaits(t *testing.T) {
	a := &api{events: map[string]*corev1.Event{}}
	r := events.New(events.Config{API: a.client}) // nobody runs it
	for i := range 1500 {
		pod := newPod()
		pod.UID = types.UID(fmt.Sprint(i))
		r.Record(events.OfPod(pod, ""), corev1.EventTypeNormal, "R", "m")
	}
	if r.Lost() != 500 || len(r.Recent()) != 256 {
		t.Errorf("lost %d, recent %d", r.Lost(), len(r.Recent()))
	}
}
