package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// API is what a Recorder needs of the API server for the events of one namespace.
// client-go's typed client is one.
type API interface {
	Create(ctx context.Context, event *corev1.Event, opts metav1.CreateOptions) (*corev1.Event, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Event, error)
}

// The limits of a Recorder. A kubelet tries to tell an event twelve times, ten seconds
// apart.
const (
	queueLength = 1000
	recentKept  = 256
	retryWait   = 10 * time.Second
	giveUpAfter = 12 * retryWait
	callTimeout = 10 * time.Second
)

// Config says where a Recorder tells events. The zero value only remembers the recent.
type Config struct {
	// Component is who tells; empty: kubelet. Host is the name of the node.
	Component, Host string
	// API returns the client for the events of a namespace; nil: there is no API server.
	API func(namespace string) API
	// Told is called with each event that is not dropped, also when it only counts an
	// earlier one. It must not block, and must not change the event. nil: nobody listens.
	Told func(*corev1.Event)
	// Log gets what no error reports; nil: nothing is logged.
	Log *slog.Logger
}

// Recorder tells events.
type Recorder struct {
	cfg   Config
	queue chan told

	mu         sync.Mutex // guards the fields below
	correlator *Correlator
	recent     []*corev1.Event
	lost       int
	last       time.Time
}

// told is an event on its way to the API server.
type told struct {
	event   *corev1.Event
	verdict Verdict
}

// New returns a Recorder.
func New(cfg Config) *Recorder {
	if cfg.Component == "" {
		cfg.Component = "kubelet"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Recorder{cfg: cfg, queue: make(chan told, queueLength), correlator: NewCorrelator()}
}

// OfPod refers to a container of a pod, or to the pod as a whole if container is empty
// or is none of it.
func OfPod(pod *corev1.Pod, container string) corev1.ObjectReference {
	return corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: fieldPath(&pod.Spec, container),
	}
}

// OfNode refers to a node. Like a kubelet's, its UID is its name.
func OfNode(name string) corev1.ObjectReference {
	return corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}
}

func fieldPath(spec *corev1.PodSpec, container string) string {
	named := func(c corev1.Container) bool { return c.Name == container }
	switch {
	case container == "":
		return ""
	case slices.ContainsFunc(spec.Containers, named):
		return "spec.containers{" + container + "}"
	case slices.ContainsFunc(spec.InitContainers, named):
		return "spec.initContainers{" + container + "}"
	case slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == container }):
		return "spec.ephemeralContainers{" + container + "}"
	}
	return ""
}

// Record tells an event of an object. kind is corev1.EventTypeNormal or
// corev1.EventTypeWarning.
func (r *Recorder) Record(object corev1.ObjectReference, kind, reason, message string) {
	r.Annotated(nil).Record(object, kind, reason, message)
}

// Annotated returns what tells events with these annotations, as a kubelet tells by them
// what an eviction was for. Of an event that repeats the newest count. They are not to be
// changed afterwards.
func (r *Recorder) Annotated(annotations map[string]string) Annotated {
	return Annotated{recorder: r, annotations: annotations}
}

// Annotated tells events with annotations. Get one from [Recorder.Annotated].
type Annotated struct {
	recorder    *Recorder
	annotations map[string]string
}

// Record tells an event of an object, see [Recorder.Record].
func (a Annotated) Record(object corev1.ObjectReference, kind, reason, message string) {
	r := a.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := r.newLocked(object, kind, reason, message)
	fresh.Annotations = a.annotations
	e, verdict := r.correlator.Correlate(fresh, r.last)
	if verdict == Drop {
		return
	}
	r.recent = slices.DeleteFunc(r.recent, func(old *corev1.Event) bool { return old.Name == e.Name && old.Namespace == e.Namespace })
	r.recent = append(r.recent, e)
	if len(r.recent) > recentKept {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	if r.cfg.Told != nil {
		r.cfg.Told(e)
	}
	if r.cfg.API == nil {
		return
	}
	select {
	case r.queue <- told{e, verdict}:
	default:
		r.lost++
	}
}

// newLocked makes an event of this moment. No two have the same.
func (r *Recorder) newLocked(object corev1.ObjectReference, kind, reason, message string) *corev1.Event {
	now := time.Now()
	if !now.After(r.last) {
		now = r.last.Add(time.Nanosecond)
	}
	r.last = now
	namespace := object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: nameOf(object.Name, now), Namespace: namespace},
		InvolvedObject:      object,
		Type:                kind,
		Reason:              reason,
		Message:             message,
		Count:               1,
		FirstTimestamp:      at,
		LastTimestamp:       at,
		Source:              corev1.EventSource{Component: r.cfg.Component, Host: r.cfg.Host},
		ReportingController: r.cfg.Component,
		ReportingInstance:   r.cfg.Host,
	}
}

// Recent returns the newest events, the oldest of them first, each once with its count.
// They are not to be changed.
func (r *Recorder) Recent() []*corev1.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.recent)
}

// Lost returns how many events were not brought to the API server because too many
// waited.
func (r *Recorder) Lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Run brings events to the API server, one after the other, until ctx ends; then it
// returns nil. Without an API it only waits. It is called once.
func (r *Recorder) Run(ctx context.Context) error {
	created := newCache[string, bool](remembered)
	for {
		select {
		case <-ctx.Done():
			return nil
		case t := <-r.queue:
			r.bring(ctx, t, &created)
		}
	}
}

// bring tells the API server of an event, again while it does not answer and the event
// is young.
func (r *Recorder) bring(ctx context.Context, t told, created *cache[string, bool]) {
	key := t.event.Namespace + "/" + t.event.Name
	for {
		_, there := created.get(key)
		err := r.send(ctx, t.event, there)
		switch {
		case err == nil:
			created.put(key, true)
			return
		case ctx.Err() != nil:
			return
		case answered(err), time.Since(t.event.LastTimestamp.Time) >= giveUpAfter:
			r.cfg.Log.Warn("event was not told", "reason", t.event.Reason, "object", t.event.InvolvedObject.Name, "err", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryWait):
		}
	}
}

// send makes the call, two if the event that is to be counted is gone. An event of which
// the first telling was lost is told as new.
func (r *Recorder) send(ctx context.Context, e *corev1.Event, there bool) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	api := r.cfg.API(e.Namespace)
	if there {
		_, err := api.Patch(ctx, e.Name, types.StrategicMergePatchType, change(e), metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return wrap("count event", err)
		}
	}
	_, err := api.Create(ctx, e, metav1.CreateOptions{})
	return wrap("create event", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// change is the patch that counts an event.
func change(e *corev1.Event) []byte {
	news := map[string]any{"count": e.Count, "lastTimestamp": e.LastTimestamp, "message": e.Message}
	if len(e.Annotations) > 0 {
		news["metadata"] = map[string]any{"annotations": e.Annotations}
	}
	data, _ := json.Marshal(news) // such a map can be encoded
	return data
}

// answered reports whether the API server has said no, which it will say again.
func answered(err error) bool {
	var status apierrors.APIStatus // no error by its type, so AsType is not for it
	return errors.As(err, &status) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err)
}
