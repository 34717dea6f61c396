//go:build linux

package volume

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// record is what is known of a pod that has volumes.
type record struct {
	pod     *corev1.Pod // the newest
	version int         // counts the pods of this record
	volumes map[string]*state
	leaving bool     // volumes are torn down; nothing is set up any more
	undo    *undoing // nil: nobody tears down
}

// state is one volume of a pod.
type state struct {
	volume  *corev1.Volume
	mounted Mounted
	ready   bool          // containers may use it
	fixed   bool          // the content cannot change any more
	err     error         // why the last attempt failed
	fails   int           // attempts in a row
	next    time.Time     // when it is set up again; zero: not by time
	shown   int           // the version of the pod of the last attempt
	touched bool          // something has changed since the last attempt began
	running *attempt      // nil: nobody works on it
	changed chan struct{} // closed, and made anew, when something changes
}

// become takes a version of the pod.
func (r *record) become(pod *corev1.Pod) {
	if r.pod != pod {
		r.pod = pod
		r.version++
	}
}

// attempt is one try to set up a volume.
type attempt struct {
	cancel context.CancelFunc
	done   chan struct{} // closed at the end
}

// touch notes that something has changed, and wakes who waits to try again.
func (s *state) touch() {
	if s.fixed {
		return
	}
	s.touched = true
	close(s.changed)
	s.changed = make(chan struct{})
}

// shows reports whether a volume of a pod in a namespace shows an object.
func (s *state) shows(namespace string, o Object) bool {
	return slices.ContainsFunc(references(namespace, s.volume), func(r Object) bool {
		return r == o || o.Kind == TrustBundles && r.Kind == o.Kind && (r.Name == "" || o.Name == "")
	})
}

// showsPod reports whether a volume shows something of the pod itself.
func (s *state) showsPod() bool {
	if s.volume.DownwardAPI != nil {
		return true
	}
	return s.volume.Projected != nil && slices.ContainsFunc(s.volume.Projected.Sources, func(p corev1.VolumeProjection) bool {
		return p.DownwardAPI != nil
	})
}

// changes reports whether the content of a volume of this kind can change after it was
// set up.
func changes(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}
