package staticpods

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// RemoteConfig is what a Remote needs besides its URL.
type RemoteConfig struct {
	// Config is that of a Source. Period is the time between two requests; Settle has no
	// effect.
	Config
	// Header is sent with each request, beside the usual fields.
	Header http.Header
	// Client makes the requests; nil: one of its own, by the proxy settings of the
	// environment, that follows no redirect from https to http. Each request takes ten
	// seconds at most.
	Client *http.Client
}

// Remote delivers the pods of a URL. Make one with URL.
type Remote struct {
	url   string
	cfg   RemoteConfig
	board board
}

// URL returns a source of the pods that an http or https URL answers with: a Pod or a
// PodList, in YAML or JSON. Nothing is sent yet.
func URL(address string, cfg RemoteConfig) (*Remote, error) {
	u, err := checkURL(address)
	if err == nil {
		err = cfg.complete()
	}
	if err != nil {
		return nil, fmt.Errorf("static pods: %w", err)
	}
	if cfg.Client == nil {
		cfg.Client = newFetcher()
	}
	return &Remote{url: address, cfg: cfg, board: board{path: u.Redacted(), log: cfg.Log}}, nil
}

// Statuses returns what became of the last answer: first the URL itself, then each item
// of a list, whose Path is the URL with "#items[0]" and so on. It is empty before the
// first answer. Any goroutine may call it.
func (s *Remote) Statuses() []FileStatus { return s.board.list() }

// Run calls set with the whole set, once the URL has given one and then after each
// change, until ctx is cancelled; it then returns nil. It is called once, and calls set
// from its own goroutine.
//
// An answer that is missing, wrong or broken changes nothing: the last set stays in
// force, or there is none yet; Statuses has the reason. A server that does not answer is
// asked again after a second, and then less and less often, down to once in a Period. In
// a list an invalid item keeps the pod of its name as it was, and holds up no other; while
// its name cannot be read, no pod leaves.
func (s *Remote) Run(ctx context.Context, set func(Set)) error {
	r := &remoteRun{
		Remote: s, set: set, ids: newIdentities(s.cfg.AdoptUID),
		decoder: decoder{node: s.cfg.NodeName, strict: s.cfg.Strict, remote: true},
	}
	for ctx.Err() == nil {
		wait(ctx, r.look(ctx), nil)
	}
	return nil
}

// firstRetry is the wait after the first of several failures; it doubles up to the period.
const firstRetry = time.Second

// remoteRun is the state of one Run.
type remoteRun struct {
	*Remote
	set     func(Set)
	decoder decoder
	ids     identities
	// sum is of the last answer that was read, shown what became of it.
	sum   [sha256.Size]byte
	shown []FileStatus
	// pods are the set in force; nil: none was delivered yet.
	pods     []item
	failures int
}

// look asks once, and returns how long to wait until the next time.
func (r *remoteRun) look(ctx context.Context) time.Duration {
	data, err := fetch(ctx, r.cfg.Client, r.url, r.cfg.Header)
	if ctx.Err() != nil {
		return 0
	}
	now := time.Now()
	switch sum := sha256.Sum256(data); {
	case err != nil:
		r.fail(FileStatus{State: Unreadable, Reason: err.Error()}, now)
	case len(data) == 0:
		r.empty(now)
	case sum == r.sum:
		r.failures = 0
		r.board.show(slices.Clone(r.shown), now)
	default:
		r.sum, r.failures = sum, 0
		r.take(data, now)
		r.shown = r.board.list()
	}
	if r.failures == 0 {
		return r.cfg.Period
	}
	return min(firstRetry<<min(r.failures-1, 10), r.cfg.Period)
}

// fail shows an answer that is none. What runs goes on.
func (r *remoteRun) fail(own FileStatus, now time.Time) {
	r.failures++
	r.board.show(r.kept(own), now)
}

// empty takes an answer without a byte. To the kubelet it means that there are no pods;
// but servers that break answer like that, too, so pods that run are not stopped for it.
func (r *remoteRun) empty(now time.Time) {
	const reason = "the answer is empty; for no pods, answer with a PodList without items"
	first := r.pods == nil
	r.fail(FileStatus{State: Invalid, Reason: reason}, now)
	if first {
		r.deliver([]item{})
	}
}

// kept returns the statuses of the set in force below that of the URL.
func (r *remoteRun) kept(own FileStatus) []FileStatus {
	own.Path = r.board.path
	all := []FileStatus{own}
	for i := range r.pods {
		p := &r.pods[i]
		if p.path == "" {
			all[0].Pod, all[0].UID, all[0].Kept = fullName(p.pod), p.pod.UID, true
			continue
		}
		all = append(all, r.status(p, FileStatus{State: OK, Warnings: p.warnings}))
	}
	return all
}

// status completes the status of an item whose pod is in the set.
func (r *remoteRun) status(i *item, s FileStatus) FileStatus {
	s.Path, s.Pod, s.UID = r.place(i.path), fullName(i.pod), i.pod.UID
	return s
}

// place is how the place of an item is shown.
func (r *remoteRun) place(path string) string {
	if path == "" {
		return r.board.path
	}
	return r.board.path + "#" + path
}

// take reads an answer that is new.
func (r *remoteRun) take(data []byte, now time.Time) {
	a, wrong := r.decoder.answer(data)
	if len(wrong) > 0 {
		r.board.show(r.kept(invalidStatus(wrong)), now)
		return
	}
	m := merge{run: r, now: now, before: r.pods}
	statuses := m.items(a.items)
	if len(a.items) != 1 || a.items[0].path != "" {
		statuses = append([]FileStatus{{Path: r.board.path, State: OK, Warnings: a.warnings}}, statuses...)
	} else {
		statuses[0].Warnings = append(statuses[0].Warnings, a.warnings...)
	}
	r.board.show(statuses, now)
	if r.pods == nil && len(m.pods) == 0 && len(a.items) > 0 {
		return // nothing of it is valid, and nobody knows what ran before
	}
	r.deliver(m.pods)
}

// invalidStatus is the status of what has problems.
func invalidStatus(problems []Problem) FileStatus {
	bad := invalid(problems...)
	return FileStatus{State: Invalid, Reason: bad.Error(), Line: bad.Problems[0].Line, Problems: bad.Problems}
}

// deliver hands the set out if it is new.
func (r *remoteRun) deliver(pods []item) {
	same := func(a, b item) bool { return a.pod == b.pod }
	if r.pods != nil && slices.EqualFunc(pods, r.pods, same) {
		r.pods = pods
		return
	}
	r.pods = append([]item{}, pods...) // not nil, also if it is empty
	r.ids.retain(func(yield func(*result) bool) {
		for i := range r.pods {
			if !yield(&r.pods[i].result) {
				return
			}
		}
	})
	var set Set
	for i := range r.pods {
		set.Pods = append(set.Pods, r.pods[i].pod)
	}
	r.set(set)
}

// merge puts the items of an answer together with the set before it.
type merge struct {
	run    *remoteRun
	now    time.Time
	before []item
	// pods are the new set.
	pods []item
}

// items takes the items of an answer and returns their statuses, and those of pods that
// stay although they are not in it.
func (m *merge) items(items []item) []FileStatus {
	statuses := make([]FileStatus, len(items))
	lost := false // the name of an invalid item
	for i := range items {
		if !items[i].bad() {
			statuses[i] = m.valid(&items[i])
		}
	}
	for i := range items {
		if items[i].bad() {
			statuses[i] = m.invalid(&items[i])
			lost = lost || items[i].name == ""
		}
	}
	if !lost {
		return statuses
	}
	for i := range m.before {
		old := &m.before[i]
		if m.taken(old.pod) != nil {
			continue
		}
		stays := *old
		stays.path = fullName(old.pod)
		m.pods = append(m.pods, stays)
		statuses = append(statuses, m.run.status(&stays, FileStatus{
			State: Invalid, Kept: true, Reason: "is not in the answer, but one of its items cannot be read",
		}))
	}
	return statuses
}

// valid takes an item that holds a pod. A pod that is the same as before stays the same
// object.
func (m *merge) valid(i *item) FileStatus {
	for j := range m.before {
		if old := &m.before[j]; old.key == i.key {
			i.pod = old.pod
		}
	}
	m.run.ids.identify(&i.result, m.now)
	if first := m.taken(i.pod); first != nil {
		what := "pod " + fullName(i.pod)
		if fullName(first.pod) != fullName(i.pod) {
			what = "uid " + string(i.pod.UID)
		}
		return FileStatus{Path: m.run.place(i.path), State: Duplicate, Warnings: i.warnings, Reason: what + " is taken by " + first.path + ", which comes first"}
	}
	m.pods = append(m.pods, *i)
	return m.run.status(i, FileStatus{State: OK, Warnings: i.warnings})
}

// invalid takes an item that holds no pod that could run, and keeps the pod of its name.
func (m *merge) invalid(i *item) FileStatus {
	s := invalidStatus(i.problems)
	s.Path = m.run.place(i.path)
	for j := range m.before {
		old := m.before[j]
		if fullName(old.pod) != i.name || m.taken(old.pod) != nil {
			continue
		}
		old.path = i.path
		m.pods = append(m.pods, old)
		s.Kept = true
		return m.run.status(&old, s)
	}
	return s
}

// taken returns the item of the set that has the name or the UID of a pod, nil if none
// has.
func (m *merge) taken(pod *corev1.Pod) *item {
	for i := range m.pods {
		if o := m.pods[i].pod; fullName(o) == fullName(pod) || o.UID == pod.UID {
			return &m.pods[i]
		}
	}
	return nil
}
