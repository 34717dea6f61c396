package staticpods

import (
	"bytes"
	"errors"
	"fmt"
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
	good        result // the last reading that gave a pod
	status      FileStatus
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
	problems []Problem
	warnings []Problem
	failure  string // the file could not be read
	// line is the last line if the text is YAML and ends inside it, else 0.
	line int
}

// resultOf turns the outcome of decoding text into a result.
func resultOf(text []byte, m Manifest, err error) result {
	if err == nil {
		return result{
			pod: m.Pod, digest: m.digest, key: m.digest + "/" + string(m.Pod.UID),
			warnings: m.Warnings, line: openLine(text),
		}
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

// take keeps what was read. A pod that is the same as before stays the same
// object.
//
// The first half of a pod in YAML is often a pod too, but it mostly ends inside a
// line: a file that used to end with a line break and does not any more is taken
// for the first half of one.
func (f *file) take(r result) {
	same := f.good.pod != nil && f.good.key == r.key
	if f.good.pod != nil && !same && r.line > 0 && f.good.line == 0 {
		r = result{problems: []Problem{{
			Line:    r.line,
			Message: "ends inside a line as if half written, which the last valid version did not; end it with a line break",
		}}}
	}
	f.read, f.retry, f.last, f.rest.first = true, r.failure != "", r, time.Time{}
	if r.pod == nil {
		return
	}
	if same {
		r.pod = f.good.pod
	}
	f.good = r
}

// pod returns the pod that the file stands for: that of its last valid version.
func (f *file) pod() *corev1.Pod {
	if !f.manifest {
		return nil
	}
	return f.good.pod
}

func (f *file) setStatus(s FileStatus, now time.Time) {
	s.Path = f.entry.path
	if f.status.same(s) {
		return
	}
	s.Since = now
	f.status = s
}

// contributes is the status of a file whose pod is in the set.
func (f *file) contributes() FileStatus {
	s, bad := f.bad()
	if !bad {
		s = FileStatus{State: OK, Warnings: f.last.warnings}
	}
	s.Pod, s.UID, s.Kept = fullName(f.good.pod), f.good.pod.UID, bad
	return s
}

// duplicate is the status of a file whose pod another file has.
func (f *file) duplicate(first *file) FileStatus {
	if s, bad := f.bad(); bad {
		return s
	}
	what := "pod " + fullName(f.good.pod)
	if fullName(first.good.pod) != fullName(f.good.pod) {
		what = "uid " + string(f.good.pod.UID)
	}
	return FileStatus{
		State: Duplicate, Warnings: f.last.warnings,
		Reason: fmt.Sprintf("%s is taken by %s, which sorts first", what, first.entry.path),
	}
}

// idle is the status of a file that stands for no pod; byName has the files that
// do.
func (f *file) idle(byName map[string]*file) FileStatus {
	switch {
	case !f.read && f.last.isZero():
		return FileStatus{State: Pending, Reason: "is still being written"}
	case f.entry.odd != "" && !f.entry.broken:
		return FileStatus{State: Ignored, Reason: f.entry.odd}
	case !f.manifest:
		return f.ignored(byName)
	}
	s, _ := f.bad()
	return s
}

func (r result) isZero() bool { return r.pod == nil && r.failure == "" && len(r.problems) == 0 }

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
	default:
		return FileStatus{}, false
	}
	return s, true
}
