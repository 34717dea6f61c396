package podworker

import (
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// life is what the model remembers of one life of a UID.
type life struct {
	phase Phase
	ended bool
	grace time.Duration
}

// model drives a machine with random events and checks what must always hold.
type model struct {
	t     *rapid.T
	m     *machine
	now   time.Time
	out   map[types.UID]Phase
	lives map[types.UID]life
}

// newModel returns a model of an empty machine.
func newModel(t *rapid.T) *model {
	return &model{
		t:     t,
		m:     newMachine(time.Minute, 10*time.Second, func(d time.Duration) time.Duration { return d }),
		now:   time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		out:   map[types.UID]Phase{},
		lives: map[types.UID]life{},
	}
}

// step makes one step and checks its effects.
func (m *model) step(ev event) {
	m.t.Helper()
	for _, e := range m.m.step(m.now, ev) {
		m.t.Log(e)
		switch e := e.(type) {
		case refused:
			m.t.Fatalf("%v", e)
		case moved:
			m.moved(e)
		case cancel:
			if m.out[e.uid] == Unknown {
				m.t.Fatalf("%v, but no call is out", e)
			}
		case call:
			m.called(e)
		}
	}
	m.check()
}

// moved checks that a life only goes forward.
func (m *model) moved(e moved) {
	l := m.lives[e.pod.UID]
	if l.phase != e.from {
		m.t.Fatalf("%v, but it was %s", e, l.phase)
	}
	if e.to < e.from && e.from != Finished {
		m.t.Fatalf("%v goes backwards", e)
	}
	if e.from == Finished {
		l = life{}
	}
	l.phase = e.to
	l.ended = l.ended || e.to >= Terminating
	m.lives[e.pod.UID] = l
}

// called checks that a call may be made.
func (m *model) called(c call) {
	l := m.lives[c.uid]
	switch {
	case m.out[c.uid] != Unknown:
		m.t.Fatalf("%v while %s is out", c, method(m.out[c.uid]))
	case c.phase != l.phase:
		m.t.Fatalf("%v in phase %s", c, l.phase)
	case c.phase == Syncing && l.ended:
		m.t.Fatalf("%v after the pod was told to end", c)
	}
	if w := m.m.workers[c.uid]; c.phase == Terminating && (c.t.Grace > w.ending.Grace || c.t.Grace < MinGrace) {
		m.t.Fatalf("%v, asked for was %s", c, w.ending.Grace)
	}
	m.out[c.uid] = c.phase
}

// check looks at the state between two steps.
func (m *model) check() {
	started := map[string][]types.UID{}
	for uid, w := range m.m.workers {
		l := m.lives[uid]
		if w.phase != l.phase {
			m.t.Fatalf("%s is %s, told was %s", uid, w.phase, l.phase)
		}
		if g := w.ending.Grace; l.grace != 0 && g > l.grace {
			m.t.Fatalf("grace of %s grew from %s to %s", uid, l.grace, g)
		}
		l.grace = w.ending.Grace
		m.lives[uid] = l
		if w.name != "" && w.phase.holdsName() && w.started {
			started[w.name] = append(started[w.name], uid)
		}
		if w.phase.calls() && m.out[uid] == Unknown && w.due.IsZero() {
			m.t.Fatalf("%s is %s, and nothing will ever happen to it", uid, w.phase)
		}
	}
	for name, uids := range started {
		if len(uids) > 1 {
			m.t.Fatalf("%v have started under the name %s", uids, name)
		}
	}
}

// uid draws one of a few.
func (m *model) uid() types.UID {
	return types.UID(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(m.t, "uid"))
}

// pod draws a pod; names and sources collide often.
func (m *model) pod() *corev1.Pod {
	uid := m.uid()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: uid}}
	pod.Name = rapid.SampledFrom([]string{"web", "web", "web", "web", "shop"}).Draw(m.t, "name")
	source := rapid.SampledFrom([]string{"file", "file", "file", "api"}).Draw(m.t, "source")
	pod.Annotations = map[string]string{sourceAnnotation: source}
	switch rapid.IntRange(0, 9).Draw(m.t, "over") {
	case 0:
		pod.DeletionTimestamp = &metav1.Time{}
		pod.DeletionGracePeriodSeconds = new(rapid.Int64Range(0, 60).Draw(m.t, "seconds"))
	case 1:
		pod.Status.Phase = corev1.PodFailed
	}
	return pod
}

// termination draws a request.
func (m *model) termination() Termination {
	return Termination{Grace: time.Duration(rapid.IntRange(0, 60).Draw(m.t, "grace")) * time.Second}
}

// callOut draws a call that is out.
func (m *model) callOut() types.UID {
	if len(m.out) == 0 {
		m.t.Skip("no call is out")
	}
	uids := make([]types.UID, 0, len(m.out))
	for uid := range m.out {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return rapid.SampledFrom(uids).Draw(m.t, "out")
}

// actions are the events that may happen in any order.
func (m *model) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"update":    func(*rapid.T) { m.step(updated{m.pod()}) },
		"terminate": func(*rapid.T) { m.step(ended{m.uid(), m.termination()}) },
		"orphan":    func(*rapid.T) { m.step(orphaned{m.pod(), m.termination()}) },
		"vanish":    func(*rapid.T) { m.step(vanished{m.uid()}) },
		"wake":      func(*rapid.T) { m.step(woken{m.uid()}) },
		"retain": func(*rapid.T) {
			set := map[types.UID]struct{}{}
			for range rapid.IntRange(0, 4).Draw(m.t, "wanted") {
				set[m.uid()] = struct{}{}
			}
			m.step(retained{set})
		},
		"return": func(t *rapid.T) {
			uid := m.callOut()
			delete(m.out, uid)
			r := returned{uid: uid}
			switch rapid.IntRange(0, 5).Draw(t, "result") {
			case 0:
				r.err = errors.New("boom")
			case 1:
				r.outcome.Terminal = true
			}
			m.step(r)
		},
		"time": func(t *rapid.T) {
			m.now = m.now.Add(time.Duration(rapid.IntRange(0, 90_000).Draw(t, "ms")) * time.Millisecond)
			m.step(ticked{})
		},
	}
}

// drain lets everything end: no pod is wanted, and every call succeeds.
func (m *model) drain() {
	m.step(retained{})
	for range 1000 {
		uids := make([]types.UID, 0, len(m.out))
		for uid := range m.out {
			uids = append(uids, uid)
		}
		for _, uid := range uids {
			delete(m.out, uid)
			m.step(returned{uid: uid})
		}
		next := m.m.next()
		if next.IsZero() && len(m.out) == 0 {
			break
		}
		if next.After(m.now) {
			m.now = next
		}
		m.step(ticked{})
	}
	if len(m.m.workers) != 0 || len(m.m.names) != 0 || len(m.out) != 0 {
		m.t.Fatalf("left over: workers %v, names %v, calls %v", m.m.workers, m.m.names, m.out)
	}
}

// TestMachineUnderRandomEvents: whatever happens in whatever order, a life only
// goes forward, one call per UID is out, no Sync follows a request to end, no two
// pods of one name have started, grace never grows, and everything ends when
// nothing is wanted.
func TestMachineUnderRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		t.Repeat(m.actions())
		m.drain()
	})
}

// TestIllegalTransitionIsRefused shows that a bug in the machine is told, and
// changes nothing.
func TestIllegalTransitionIsRefused(t *testing.T) {
	m := newMachine(time.Minute, time.Second, func(d time.Duration) time.Duration { return d })
	w := m.add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "a"}})
	w.phase = Terminating
	m.becomeSyncing(time.Time{}, w)
	if w.phase != Terminating {
		t.Errorf("phase is %s, want Terminating", w.phase)
	}
	if len(m.effects) != 1 || m.effects[0].(refused).to != Syncing {
		t.Errorf("effects are %v, want one refusal", m.effects)
	}
}

// BenchmarkMachine measures one Sync of one pod among 500: the hint, the call and
// its return.
func BenchmarkMachine(b *testing.B) {
	m := newMachine(time.Minute, 10*time.Second, halfLonger)
	now := time.Now()
	uids := make([]types.UID, 500)
	for i := range uids {
		uids[i] = types.UID(strconv.Itoa(i))
		m.step(now, updated{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uids[i]}}})
		m.step(now, returned{uid: uids[i]})
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		uid := uids[i%len(uids)]
		m.step(now, woken{uid})
		m.step(now, returned{uid: uid})
		m.next()
	}
}
