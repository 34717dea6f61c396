package staticpods

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// board shows what became of what a source reads, and logs what changes.
type board struct {
	// path is that of the source itself.
	path string
	log  *slog.Logger

	mu       sync.Mutex // guards statuses
	statuses []FileStatus
}

// list returns the statuses.
func (b *board) list() []FileStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.statuses)
}

// show replaces the statuses and logs what changed. One without a time is as old as the
// same one on the board.
func (b *board) show(all []FileStatus, now time.Time) {
	old := b.list()
	before := map[string]FileStatus{}
	for _, s := range old {
		before[s.Path] = s
	}
	for i := range all {
		s := &all[i]
		was := before[s.Path]
		switch {
		case !s.Since.IsZero():
		case was.same(*s):
			s.Since = was.Since
		default:
			s.Since = now
		}
		if !was.same(*s) {
			b.tell(*s)
		}
	}
	b.tellGone(old, all)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.statuses = all
}

// tellGone has one line for each status that is not there any more.
func (b *board) tellGone(old, all []FileStatus) {
	for _, s := range old {
		switch {
		case slices.ContainsFunc(all, func(o FileStatus) bool { return o.Path == s.Path }):
		case s.Path == b.path && s.State >= Missing:
			b.log.Info("manifests can be read again", "path", s.Path)
		default:
			b.log.Info("manifest gone", "path", s.Path, "pod", s.Pod)
		}
	}
}

func (b *board) tell(s FileStatus) {
	switch s.State {
	case OK:
		b.log.Info("manifest read", "path", s.Path, "pod", s.Pod, "uid", s.UID, "objects", s.Objects)
	case Pending:
	case Invalid:
		b.log.Error("manifest invalid", "path", s.Path, "reason", s.Reason, "pod", s.Pod, "kept", s.Kept)
	case Unreadable:
		b.log.Error("manifests unreadable, the last set stays", "path", s.Path, "reason", s.Reason)
	case Duplicate, Ignored, Missing:
		b.log.Warn("manifest not used", "path", s.Path, "state", s.State, "reason", s.Reason)
	}
	for _, w := range s.Warnings {
		b.log.Warn("manifest warning", "path", s.Path, "line", w.Line, "field", w.Field, "warning", w.Message)
	}
}
