package staticpods

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// patience is how many settle times a file may go on changing before it is read
// as it is.
const patience = 20

// file is one name of the directory.
type file struct {
	entry entry
	rest  rest
	// manifest is false for a name that is looked at only to warn.
	manifest bool
	// read is true when the entry, as it is now, has been read; retry when reading
	// failed and is tried at the next look.
	read, retry bool
	last        result // of the last reading
	good        result // the last reading that gave a pod or objects
	// runs is the reading whose pod is in the set. It is not that of good while the new
	// pod needs objects that are not there.
	runs result
	// unmet has what the pod of good needs, taken what objects of good other files have.
	unmet, taken []Problem
	status       FileStatus
	// removed is true when the name was removed since the file was last read, putBack
	// when it was back as it was then.
	removed, putBack bool
}

// rest follows how long a name stays as it is.
type rest struct {
	since time.Time // the entry was first seen as it is
	first time.Time // it began to change; zero when it has settled
	gone  time.Time // the name was first missed; zero while it is there
}

// result is what reading a file gave.
type result struct {
	pod      *corev1.Pod // nil if there is none
	digest   string
	key      string // equal for two readings that give the same pod
	needs    []need // what the pod refers to
	objects  []local
	problems []Problem
	warnings []Problem
	failure  string // the file could not be read
	// line is the last line if the text is YAML and ends inside it, else 0.
	line int
}

// resultOf turns the outcome of decoding text into a result.
func resultOf(text []byte, m Manifest, err error) result {
	if err == nil {
		r := result{pod: m.Pod, digest: m.digest, needs: m.needs, objects: m.objects, warnings: m.Warnings, line: openLine(text)}
		if m.Pod != nil {
			r.key = m.digest + "/" + string(m.Pod.UID)
		}
		return r
	}
	if bad, ok := errors.AsType[*InvalidError](err); ok {
		return result{problems: bad.Problems}
	}
	return result{failure: err.Error()}
}

// openLine returns the number of the line in which a YAML text ends. A text that
// ends with a line break has none, nor has JSON, whose end is its last brace.
func openLine(text []byte) int {
	if bytes.HasSuffix(text, []byte("\n")) || bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return 0
	}
	return bytes.Count(text, []byte("\n")) + 1
}

// see notes the entry and returns how long it must stay as it is to be trusted.
// A file that was last written a settle time ago is trusted at once.
func (f *file) see(e entry, now time.Time, settle time.Duration) time.Duration {
	r := &f.rest
	r.gone = time.Time{}
	if r.since.IsZero() || e != f.entry {
		f.entry, f.read, f.retry, r.since = e, false, false, now
		if r.first.IsZero() {
			r.first = now
		}
	}
	quiet := now.Sub(r.since)
	old := e.odd == "" && now.Sub(e.print.mtime) >= settle
	if f.read || old || quiet >= settle || f.impatient(now, settle) {
		f.read = f.read || e.odd != ""
		return 0
	}
	return settle - quiet
}

// impatient is true for a file that has been changing for too long to wait on.
func (f *file) impatient(now time.Time, settle time.Duration) bool {
	return !f.rest.first.IsZero() && now.Sub(f.rest.first) >= patience*settle
}

// miss notes that the name is not there, and returns how long it must stay away
// to count as removed: some editors replace a file by removing it first.
func (f *file) miss(now time.Time, settle time.Duration) time.Duration {
	if f.rest.gone.IsZero() {
		f.rest.gone = now
	}
	return max(0, settle-now.Sub(f.rest.gone))
}

// take keeps what was read. A pod, and an object, that is the same as before stays the
// same.
//
// The first half of a manifest in YAML is often one too, but it mostly ends inside a
// line: a file that used to end with a line break and does not any more is taken for the
// first half of one. So is one that has lost its pod and kept the objects beside it.
func (f *file) take(r result) {
	old := &f.good
	same := r.keep(old) && r.valid() && old.key == r.key
	switch {
	case !r.valid() || !old.valid() || same:
	case r.line > 0 && old.line == 0:
		r = result{problems: []Problem{{
			Line:    r.line,
			Message: "ends inside a line as if half written, which the last valid version did not; end it with a line break",
		}}}
	case r.pod == nil && old.pod != nil:
		r = result{problems: []Problem{{Message: "holds no Pod any more; to stop a pod, remove its file"}}}
	}
	f.read, f.retry, f.last, f.rest.first = true, r.failure != "", r, time.Time{}
	if !r.valid() {
		return
	}
	if old.pod != nil && old.key == r.key {
		r.pod = old.pod
	}
	f.good = r
}

// remove notes that the name was removed, whether or not it is back.
func (f *file) remove() { f.removed, f.read = f.runs.pod != nil, false }

// restore takes that the file was read, whose pod was before until then. An edit that
// replaces the file by removing it first is no more than an edit, and what is broken
// leaves the pod alone.
func (f *file) restore(before *corev1.Pod) {
	f.putBack = f.putBack || f.removed && f.last.pod != nil && f.good.pod == before
	f.removed = false
}

// valid reports whether a reading gave anything.
func (r *result) valid() bool { return r.pod != nil || len(r.objects) > 0 }

// keep puts the old objects in the place of those that are equal, and reports whether
// all are.
func (r *result) keep(old *result) bool {
	for i, o := range r.objects {
		at := slices.IndexFunc(old.objects, func(p local) bool { return reflect.DeepEqual(o, p) })
		if at >= 0 {
			r.objects[i] = old.objects[at]
		}
	}
	return sameObjects(r.objects, old.objects)
}

// settle makes the pod of the last valid version the one that runs if all is there that
// it needs. If not, that of an earlier version goes on.
func (f *file) settle(there func(objectName) bool) {
	f.unmet = unmet(f.good.needs, there)
	if len(f.unmet) == 0 {
		f.runs = f.good
	}
}

// pod returns the pod that the file stands for.
func (f *file) pod() *corev1.Pod {
	if !f.manifest {
		return nil
	}
	return f.runs.pod
}

func (f *file) setStatus(s FileStatus, now time.Time) {
	s.Path = f.entry.path
	if f.status.same(s) {
		return
	}
	s.Since = now
	f.status = s
}

// contributes is the status of a file whose pod, or objects, are in the set.
func (f *file) contributes() FileStatus {
	s, bad := f.bad()
	if !bad {
		s = FileStatus{State: OK, Warnings: f.warnings()}
	}
	s.Objects = f.objects()
	if pod := f.pod(); pod != nil {
		s.Pod, s.UID = fullName(pod), pod.UID
	}
	s.Kept = bad && (s.Pod != "" || !f.last.valid())
	return s
}

// objects returns the names of the objects that the file contributes to the set.
func (f *file) objects() []string {
	var names []string
	for _, o := range f.good.objects {
		names = append(names, nameOf(o).String())
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(f.taken, func(p Problem) bool { return p.Field == name })
	})
}

// warnings returns what the file holds in vain.
func (f *file) warnings() []Problem { return slices.Concat(f.last.warnings, f.taken) }

// duplicate is the status of a file whose pod another file has.
func (f *file) duplicate(first *file) FileStatus {
	if s, bad := f.bad(); bad {
		return s
	}
	what := "pod " + fullName(f.runs.pod)
	if fullName(first.runs.pod) != fullName(f.runs.pod) {
		what = "uid " + string(f.runs.pod.UID)
	}
	return FileStatus{
		State: Duplicate, Warnings: f.warnings(), Objects: f.objects(),
		Reason: fmt.Sprintf("%s is taken by %s, which sorts first", what, first.entry.path),
	}
}

// idle is the status of a file that stands for no pod; byName has the files that
// do. It may have objects.
func (f *file) idle(byName map[string]*file) FileStatus {
	switch {
	case !f.read && f.last.isZero():
		return FileStatus{State: Pending, Reason: "is still being written"}
	case f.entry.odd != "" && !f.entry.broken:
		return FileStatus{State: Ignored, Reason: f.entry.odd}
	case !f.manifest:
		return f.ignored(byName)
	case len(f.good.objects) > 0 && len(f.objects()) > 0:
		return f.contributes()
	case len(f.good.objects) > 0 && f.good.pod == nil:
		return FileStatus{State: Duplicate, Warnings: f.last.warnings, Reason: f.taken[0].String()}
	}
	s, _ := f.bad()
	return s
}

func (r *result) isZero() bool { return !r.valid() && r.failure == "" && len(r.problems) == 0 }

// ignored is the status of a file with another extension. It says what the file
// would be, since the backup of a manifest is often taken for one.
func (f *file) ignored(byName map[string]*file) FileStatus {
	s := FileStatus{State: Ignored, Reason: "is not named *.yaml, *.yml or *.json"}
	switch {
	case f.entry.odd != "":
		s.Reason = f.entry.odd
	case f.last.failure != "":
		s.Reason += "; it " + f.last.failure
	case len(f.last.problems) > 0:
		s.Reason += "; it is no manifest either: " + f.last.problems[0].String()
	case f.last.pod == nil:
		s.Reason += "; it holds " + nameOf(f.last.objects[0]).String()
	default:
		name := fullName(f.last.pod)
		s.Reason += "; it holds pod " + name
		if first := byName[name]; first != nil {
			s.Reason += ", which runs from " + first.entry.path
		}
	}
	return s
}

// bad returns the status Invalid if the file is broken as it is now.
func (f *file) bad() (FileStatus, bool) {
	s := FileStatus{State: Invalid, Problems: f.last.problems}
	switch {
	case f.entry.odd != "":
		s.Reason, s.Problems = f.entry.odd, nil
	case f.last.failure != "":
		s.Reason = f.last.failure
	case len(f.last.problems) > 0:
		s.Reason, s.Line = (&InvalidError{Problems: f.last.problems}).Error(), f.last.problems[0].Line
	case len(f.unmet) > 0:
		s.Reason, s.Line, s.Problems = (&InvalidError{Problems: f.unmet}).Error(), f.unmet[0].Line, f.unmet
	default:
		return FileStatus{}, false
	}
	return s, true
}
