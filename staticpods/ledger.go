package staticpods

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ledger is what is known of every file. It decides, and does no I/O: observe
// takes a view and says which files to read, record takes what was read, and
// resolve makes the set.
type ledger struct {
	settle time.Duration
	files  map[string]*file
	identities
}

func newLedger(settle time.Duration, adopt func(*corev1.Pod) (types.UID, bool)) *ledger {
	return &ledger{settle: settle, files: map[string]*file{}, identities: newIdentities(adopt)}
}

// observe compares a view with what is known. It returns the entries that are to
// be read now, and how long to wait until more may be; 0 is "until something
// changes".
func (l *ledger) observe(v view, now time.Time) (read []entry, again time.Duration) {
	present := map[string]bool{}
	for _, e := range v.entries {
		present[e.name] = true
		f := l.files[e.name]
		if f == nil {
			f = &file{}
			l.files[e.name] = f
		}
		f.manifest = v.single || isManifestName(e.name)
		if wait := f.see(e, now, l.settle); wait > 0 {
			again = sooner(again, wait)
		} else if !f.read || f.retry {
			read = append(read, e)
		}
	}
	for name, f := range l.files {
		if present[name] {
			continue
		}
		if wait := f.miss(now, l.settle); wait > 0 {
			again = sooner(again, wait)
		} else {
			delete(l.files, name)
		}
	}
	return read, again
}

// sooner returns the shorter of two waits, of which 0 is the longest.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// record takes what was read of an entry, and the fingerprint that it had then. A
// file that was written meanwhile does not count; record then returns how long to
// wait before it is read again.
func (l *ledger) record(e entry, print fingerprint, r result, now time.Time) time.Duration {
	f := l.files[e.name]
	if r.failure == "" && print != e.print && !f.impatient(now, l.settle) {
		return l.settle
	}
	before := f.runs.pod
	f.take(r)
	f.restore(before)
	return 0
}

// remove notes that names were removed since the last look, whether or not they are back.
func (l *ledger) remove(names []string) {
	for _, name := range names {
		if f := l.files[name]; f != nil {
			f.remove()
		}
	}
}

// settled reports whether every manifest has been read once, so that a first set
// lacks none.
func (l *ledger) settled() bool {
	for _, f := range l.files {
		if f.manifest && !f.read && f.last.isZero() {
			return false
		}
	}
	return true
}

// resolution is what all files together stand for.
type resolution struct {
	// pods and objects are in the order of file names.
	pods    []*corev1.Pod
	objects []local
	// putBack are those of the pods whose file was removed and is back as it was.
	putBack []types.UID
	// statuses has one for every file, in the same order.
	statuses []FileStatus
}

// resolve makes the set, and the status of every file.
func (l *ledger) resolve(now time.Time) resolution {
	names := slices.Sorted(maps.Keys(l.files))
	var out resolution
	out.objects = l.objects(names)
	byName, byUID := map[string]*file{}, map[types.UID]*file{}
	for _, name := range names {
		f := l.files[name]
		pod := f.pod()
		if pod == nil {
			continue
		}
		l.identify(&f.runs, now)
		first := byName[fullName(pod)]
		if first == nil {
			first = byUID[pod.UID]
		}
		if first != nil {
			f.setStatus(f.duplicate(first), now)
			continue
		}
		byName[fullName(pod)], byUID[pod.UID] = f, f
		out.pods = append(out.pods, pod)
		if f.putBack {
			f.putBack = false
			out.putBack = append(out.putBack, pod.UID)
		}
		f.setStatus(f.contributes(), now)
	}
	out.statuses = make([]FileStatus, len(names))
	for i, name := range names {
		f := l.files[name]
		if f.pod() == nil {
			f.setStatus(f.idle(byName), now)
		}
		out.statuses[i] = f.status
	}
	l.forget()
	return out
}

// objects returns the objects of all files, and settles which pods run with them.
func (l *ledger) objects(names []string) []local {
	all := objects{of: map[objectName]*file{}}
	for _, name := range names {
		if f := l.files[name]; f.manifest {
			f.taken = all.add(f)
		}
	}
	for _, f := range l.files {
		f.settle(func(name objectName) bool { return all.of[name] != nil })
	}
	return all.list
}

func fullName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// forget drops what was remembered for pods that have left every file.
func (l *ledger) forget() {
	l.retain(func(yield func(*result) bool) {
		for _, f := range l.files {
			if !yield(&f.good) || !yield(&f.runs) {
				return
			}
		}
	})
}
